"""The page in the cluster: a user signs in with a token, and sees the Datasets that this token may read."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from e2e.cluster.processes import wait_for
from e2e.support.bucket import files
from e2e.support.world import PATIENCE, QUICKLY, SYSTEM, Home, World


@pytest.fixture
def page(world: World) -> Iterator[str]:
    """Install the page, forward its port, and return its address."""
    world.helm_install(*QUICKLY, "dashboard.enabled=true", "dashboard.plainHTTP=true")
    with forwarded(world, "deploy/stoker-dashboard", 8443) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def forwarded(world: World, target: str, port: int) -> Iterator[int]:
    """Run ``kubectl port-forward``. Yield the local port."""
    command = ("kubectl", "-n", SYSTEM, "port-forward", target, f":{port}")
    environment = {**os.environ, **world.cluster.environment()}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        found = re.search(r"127\.0\.0\.1:(\d+)", child.stdout.readline())
        assert found
        yield int(found[1])
        child.terminate()


def token_of(world: World, namespace: str) -> str:
    """Return the token of a new account that may view ``namespace``."""
    world.kubectl("create", "serviceaccount", "viewer", "-n", namespace)
    account = f"--serviceaccount={namespace}:viewer"
    world.kubectl("create", "rolebinding", "viewer", "--clusterrole=view", account, "-n", namespace)
    return world.kubectl("create", "token", "viewer", "-n", namespace).strip()


def test_a_user_sees_the_datasets_that_the_token_may_read(
    world: World, home: Home, shared_home: Home, page: str
) -> None:
    for place in (home, shared_home):
        bucket = place.bucket()
        bucket.put(files(3, 1000))
        place.dataset("photos", bucket)
        place.ready("photos")
    with httpx2.Client(base_url=page, headers={"origin": page}) as browser:
        assert browser.get("/datasets", follow_redirects=False).status_code in (303, 401)
        answer = browser.post("/sign-in", data={"token": token_of(world, home.namespace), "namespace": ""})
        assert answer.status_code == 303, answer.text
        cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}  # Secure: not kept over plain HTTP

        def listed() -> bool:
            return f"/datasets/{home.namespace}/photos" in browser.get("/datasets", headers=cookie).text

        wait_for("the user's Dataset on the page", listed, PATIENCE)
        assert shared_home.namespace not in browser.get("/datasets", headers=cookie).text
        assert browser.get(f"/datasets/{shared_home.namespace}/photos", headers=cookie).status_code == 403
