"""Targets that can be asked: opened, priced, and sharing one limit per endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

import proctor
from proctor.codec import encode
from proctor.engines.limit import Limit
from proctor.engines.patience import Patience, Patient
from proctor.errors import UsageError
from proctor.model import Output, Params, Price, Prompt, TargetSpec
from proctor.ports import Embeds
from proctor.pricing import parse_prices, price_for, price_of
from proctor.targets import TARGETS
from proctor.targets.naming import parse_target
from proctor.targets.opening import Opening

_PRICES = Path(proctor.__file__).with_name("prices.toml")
_PLACES = {"local": 1}
"""Kinds that answer one prompt at a time by nature: asking more at once only hides their latency."""


class Reach:
    """Opens targets for one command, and closes all of them."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        concurrency: int,
        patience: Patience,
        prices: Prices,
        notify: Callable[[str], None],
        progress: Callable[[str, int, int], None] = lambda _name, _done, _total: None,
    ) -> None:
        """Opens nothing yet.

        Args:
            environ: where keys and the paths of a user's own files come from.
            concurrency: the most requests at once per endpoint.
            patience: time limit and retries of every call.
            prices: what models cost.
            notify: told what takes long, in sentences.
            progress: told how far a download is: its name, the bytes that are here, the bytes of all.
        """
        self.environ = environ
        self._notify = notify
        self._patience = patience
        self._concurrency = concurrency
        self._opening = Opening(
            environ,
            connections=max(concurrency, 1),
            timeout_s=patience.timeout_s,
            notify=notify,
            progress=progress,
        )
        self._limits: dict[tuple[str, str], Limit] = {}
        self._open: dict[bytes, Patient] = {}
        self._embedder: Embeds | None = None
        self._prices = prices

    async def target(self, spec: TargetSpec) -> Patient:
        """The target of that spec, opened at most once.

        Raises:
            UsageError: it cannot be opened: a key, a file or a program is missing.
        """
        key = encode(replace(spec, name=""))
        known = self._open.get(key)
        if known is not None:
            return known
        target = await TARGETS.get(spec.kind)(spec, self._opening)
        endpoint = (spec.kind, spec.endpoint or spec.model)
        limit = self._limits.get(endpoint)
        if limit is None:
            limit = self._limits[endpoint] = Limit(_PLACES.get(spec.kind, self._concurrency))
        patient = Patient(
            target,
            limit,
            self._patience,
            # A user's own price holds wherever the model is served, a list price only at its maker's.
            price=price_of(spec.model, self._prices.own) or price_for(spec, self._prices.shipped),
            notify=self._notify,
        )
        self._open[key] = patient
        return patient

    async def open_embedder(self) -> None:
        """Open what turns texts into vectors: `$PROCTOR_EMBEDDINGS`, else the embedded MiniLM.

        Raises:
            UsageError: the variable names nothing that can embed, or the extra is not installed.
        """
        if self._embedder is not None:
            return
        word = self.environ.get("PROCTOR_EMBEDDINGS", "local")
        if word == "local":
            from proctor.targets import minilm

            self._embedder = await minilm.open_embedder(self._opening)
            return
        spec = parse_target(word, Params(), self.environ)
        if spec.kind != "openai":
            raise UsageError(
                f"PROCTOR_EMBEDDINGS is {word!r}, which cannot embed. Use `local` or "
                "`openai:MODEL@URL`, an OpenAI-compatible endpoint with /embeddings."
            )
        from proctor.targets import openai

        self._embedder = openai.open_embeddings(spec, self._opening)

    def embedder(self) -> Embeds:
        """What `open_embedder` opened.

        Raises:
            UsageError: nothing was opened.
        """
        if self._embedder is None:
            raise UsageError(
                "There is no embedding model. Install one with pip install 'proctor[similarity]'."
            )
        return self._embedder

    async def aclose(self) -> None:
        """Close every target and the connections."""
        for patient in self._open.values():
            await patient.aclose()
        self._open.clear()
        await self._opening.aclose()


class Prices(Struct, frozen=True, kw_only=True):
    """What models cost: the list prices that are shipped, and the user's own."""

    shipped: dict[str, Price]
    own: dict[str, Price]

    @property
    def date(self) -> str | None:
        """The newest date of any of them."""
        return max((price.date for price in (*self.shipped.values(), *self.own.values())), default=None)


def load_prices(environ: Mapping[str, str], folder: Path) -> Prices:
    """The prices in use; the user's own are in `$PROCTOR_PRICES`, else in `prices.toml` in that folder.

    Raises:
        UsageError: the user's own file cannot be read.
    """
    shipped = parse_prices(_PRICES.read_text(encoding="utf-8"), "prices.toml")
    named = environ.get("PROCTOR_PRICES")
    own = Path(named) if named else folder / "prices.toml"
    if not named and not own.is_file():
        return Prices(shipped=shipped, own={})
    try:
        return Prices(shipped=shipped, own=parse_prices(own.read_text(encoding="utf-8"), str(own)))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The prices in {str(own)!r} cannot be read: {error}.") from None


async def probe(
    spec: TargetSpec, prompt: Prompt, environ: Mapping[str, str], *, timeout_s: float, prices_folder: Path
) -> Output:
    """Open a target, ask it once, close it.

    Raises:
        UsageError: it cannot be opened.
        TargetError: it does not answer.
    """
    reach = Reach(
        environ,
        concurrency=1,
        patience=Patience(timeout_s=timeout_s, retries=0),
        prices=load_prices(environ, prices_folder),
        notify=lambda _message: None,
    )
    try:
        return await (await reach.target(spec)).answer(prompt)
    finally:
        await reach.aclose()
