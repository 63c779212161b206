"""The API of Stoker: pydantic models from which the CRDs are generated. No I/O, no clients."""
