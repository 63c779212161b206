# The training image with the packages of requirements/trainer.txt, which its build context contains.
ARG TRAINING
FROM ${TRAINING}
COPY . /opt/trainer
ENV PYTHONPATH=/opt/trainer
