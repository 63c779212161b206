"""Bounded reads of forms, with the check of their token."""

from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

from stoker_cli.dashboard.core.request_checks import MOST_FORM_BYTES
from stoker_cli.dashboard.core.views import Frame
from stoker_cli.dashboard.server.session import same

_FOREIGN = "This form belongs to another session. Load the page again."


async def read_form(request: Request, most_bytes: int = MOST_FORM_BYTES) -> dict[str, str]:
    """Return the first value of each field. Raises HTTPException."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise HTTPException(413, "The form is too large.")
    try:
        fields = parse_qs(body.decode(errors="replace"), max_num_fields=8)
    except ValueError as error:
        raise HTTPException(400, "The form has too many fields.") from error
    return {name: values[0] for name, values in fields.items()}


async def check_form(request: Request, frame: Frame) -> None:
    """Refuse a form without the token of the user's pages. Raises HTTPException."""
    if not same((await read_form(request)).get("csrf", ""), frame.csrf):
        raise HTTPException(403, _FOREIGN)
