"""What chat completions answer besides text, in each service's spelling."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from proctor.errors import TargetError
from proctor.model import Attachment, Output, Params, TokenLogprob, Usage
from proctor.services.runs.execution.target_pool import reports_cost
from proctor.targets import TARGETS
from proctor.targets.parse import parse_target
from support.apis import KEY, WITH_KEY, Api
from support.builders import make_prompt
from support.media import FLAC, MP3, OGG, PNG, WAV


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


async def read(api: Api, message: dict[str, Any], options: Any = None, **reply: Any) -> Output:
    """The output of a reply with a message; further fields are those of its choice or of the reply."""
    choice = {"message": message, "logprobs": reply.pop("logprobs", None)}
    api.reply({"choices": [choice], **reply})
    return await api.ask("openai", target_options=options)


# --- reasoning ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        {"content": "4", "reasoning_content": "2 and 2"},
        {"content": "4", "reasoning": "2 and 2"},
        {"content": "4", "reasoning_content": None, "reasoning": "2 and 2"},
        {"content": "4", "reasoning": "2 and 2", "reasoning_details": [{"type": "x", "text": "other"}]},
        {
            "content": "4",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "2 and "},
                {"type": "reasoning.encrypted", "data": "AAAA"},
                {"type": "reasoning.summary", "summary": "2"},
            ],
        },
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "2 and 2"}], "closed": True},
                {"type": "text", "text": "4"},
            ]
        },
    ],
)
async def test_what_a_model_thought_is_no_part_of_its_text(api: Api, message: dict[str, Any]) -> None:
    output = await read(api, message)
    assert (output.text, output.reasoning) == ("4", "2 and 2")


@pytest.mark.parametrize(
    "message",
    [
        {"content": "4"},
        {"content": "4", "reasoning_content": "", "reasoning": None, "reasoning_details": []},
        {"content": "4", "reasoning": {"effort": "low"}, "reasoning_details": "x"},
    ],
)
async def test_an_answer_without_thoughts_has_none(api: Api, message: dict[str, Any]) -> None:
    output = await read(api, message)
    assert (output.text, output.reasoning) == ("4", None)


# --- tokens ------------------------------------------------------------------------------------------------

TEN_AND_THREE = {"prompt_tokens": 10, "completion_tokens": 3}


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (
            {"prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}},
            {"cached_tokens": 4, "cache_write_tokens": 2},
        ),
        ({"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6}, {"cached_tokens": 4}),
        ({"cached_tokens": 4}, {"cached_tokens": 4}),
        ({"prompt_tokens_details": None, "completion_tokens_details": None}, {}),
        ({"completion_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 13}, {"reasoning_tokens": 2}),
        ({"completion_tokens_details": {"reasoning_tokens": 2}}, {"reasoning_tokens": 2}),
        ({"reasoning_tokens": 2}, {"reasoning_tokens": 2}),
        # xAI counts reasoning beside the completion.
        (
            {"completion_tokens_details": {"reasoning_tokens": 90}, "total_tokens": 103},
            {"reasoning_tokens": 90, "output_tokens": 93},
        ),
    ],
)
async def test_counts_are_read_in_each_services_spelling(
    api: Api, counts: dict[str, Any], usage: dict[str, int]
) -> None:
    output = await read(api, {"content": "4"}, usage=TEN_AND_THREE | counts)
    assert output.usage == Usage(**{"input_tokens": 10, "output_tokens": 3} | usage)


# --- log-probabilities -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "logprobs",
    [
        {
            "content": [
                {
                    "token": "4",
                    "logprob": -0.25,
                    "bytes": [52],
                    "top_logprobs": [{"token": "5", "logprob": -2}, {"token": "4", "logprob": -0.25}],
                },
                {"token": ".", "logprob": 0},
            ],
            "refusal": None,
        },
        {
            "tokens": ["4", "."],
            "token_logprobs": [-0.25, 0],
            "top_logprobs": [{"4": -0.25, "5": -2.0}, None],
        },
    ],
)
async def test_log_probabilities_are_read_with_the_likeliest_first(api: Api, logprobs: Any) -> None:
    output = await read(api, {"content": "4."}, {"logprobs": 2}, logprobs=logprobs)
    four = TokenLogprob(token="4", logprob=-0.25, top=(("4", -0.25), ("5", -2.0)))
    assert output.logprobs == (four, TokenLogprob(token=".", logprob=0.0))
    assert output.refused_params == ()


@pytest.mark.parametrize(("count", "top"), [(0, ()), (1, (("4", -0.5),)), (2, (("4", -0.5), ("5", -1.0)))])
async def test_no_more_of_the_likeliest_tokens_are_kept_than_were_asked_for(
    api: Api, count: int, top: tuple[tuple[str, float], ...]
) -> None:
    likeliest = [{"token": str(number), "logprob": -number / 2 + 1.5} for number in (4, 5, 6)]
    entry = {"token": "4", "logprob": -0.5, "top_logprobs": likeliest}
    output = await read(api, {"content": "4"}, {"logprobs": count}, logprobs={"content": [entry]})
    assert output.logprobs == (TokenLogprob(token="4", logprob=-0.5, top=top),)


@pytest.mark.parametrize(
    "logprobs",
    [
        {"content": [{"token": "4", "logprob": None}]},
        {"content": [{"token": 4, "logprob": -1}]},
        {"content": ["4"]},
        {"content": [{"token": "4", "logprob": -1, "top_logprobs": [["4", -1]]}]},
        {"tokens": ["4", "5"], "token_logprobs": [-1]},
    ],
)
async def test_unreadable_log_probabilities_are_an_error_only_if_they_were_requested(
    api: Api, logprobs: Any
) -> None:
    assert (await read(api, {"content": "4"}, logprobs=logprobs)).logprobs == ()
    with pytest.raises(TargetError, match="log-probabilities that cannot be read") as error:
        await api.ask("openai", target_options={"logprobs": 1})
    assert (error.value.kind, error.value.transient) == ("protocol", False)


# --- ids ---------------------------------------------------------------------------------------------------


async def test_the_id_and_the_tier_are_kept_if_they_are_texts(api: Api) -> None:
    output = await read(api, {"content": "4"}, id="chatcmpl-9", service_tier="flex")
    assert (output.response_id, output.service_tier) == ("chatcmpl-9", "flex")
    output = await read(api, {"content": "4"}, id="x" * 9999)
    api.reply({"choices": [{"message": {"content": "4"}}], "id": 7, "service_tier": {"a": 1}})
    await api.ask("openai")
    output = await api.ask("openai")
    assert (output.response_id, output.service_tier) == (None, None)


# --- images and audio --------------------------------------------------------------------------------------

PICTURE = Attachment(kind="image", path="answer-1.png", media_type="image/png", data=PNG)


@pytest.mark.parametrize(
    "message",
    [
        {
            "content": "4",
            "images": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(PNG)}"}}],
        },
        {
            "content": "4",
            "images": [{"image_url": f"data:IMAGE/PNG;name=x;base64,{encoded(PNG).rstrip('=')}"}],
        },
        {
            "content": [
                {"type": "text", "text": "4"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(PNG)}"}},
            ]
        },
    ],
)
async def test_an_image_in_an_answer_is_an_attachment(api: Api, message: dict[str, Any]) -> None:
    output = await read(api, message)
    assert (output.text, output.attachments) == ("4", (PICTURE,))


@pytest.mark.parametrize("media_type", ["image/svg+xml", "text/html", "application/x-msdownload", ""])
async def test_data_of_any_other_type_is_bytes_without_a_type(api: Api, media_type: str) -> None:
    url = f"data:{media_type};base64,{encoded(b'<svg onload=alert(1)>')}"
    output = await read(api, {"content": "", "images": [{"image_url": {"url": url}}]})
    (attachment,) = output.attachments
    assert (attachment.kind, attachment.path) == ("file", "answer-1.bin")
    assert (attachment.media_type, attachment.data) == ("application/octet-stream", b"<svg onload=alert(1)>")


async def test_an_address_in_an_answer_is_kept_as_a_text_and_not_opened(api: Api) -> None:
    url = f"{api.url}/secret.png"
    output = await read(api, {"content": "4", "images": [{"image_url": {"url": url}}]})
    (attachment,) = output.attachments
    assert (attachment.media_type, attachment.text) == ("text/uri-list", url)
    assert [request.path for request in api.requests] == ["/chat/completions"]


async def test_a_key_in_an_address_or_in_reasoning_is_removed(api: Api) -> None:
    url = f"https://example.org/{KEY}.png"
    message = {"content": "4", "reasoning": f"I know {KEY}", "images": [{"image_url": {"url": url}}]}
    output = await read(api, message)
    assert output.attachments[0].text == "https://example.org/[key].png"
    assert output.reasoning == "I know [key]"
    assert KEY not in str(output)


@pytest.mark.parametrize(
    "images",
    [
        None,
        "x",
        [],
        [None],
        [{}],
        [{"image_url": None}],
        [{"image_url": {"url": 7}}],
        [{"image_url": ""}],
        [{"image_url": "data:image/png;base64,***"}],
    ],
)
async def test_invalid_images_change_nothing(api: Api, images: Any) -> None:
    output = await read(api, {"content": "4", "images": images})
    assert (output.text, output.attachments) == ("4", ())


@pytest.mark.parametrize(
    ("data", "media_type", "ending"),
    [
        (WAV, "audio/wav", "wav"),
        (MP3, "audio/mpeg", "mp3"),
        (FLAC, "audio/flac", "flac"),
        (OGG, "audio/ogg", "ogg"),
        (b"\1\2\3", "application/octet-stream", "bin"),
    ],
)
async def test_spoken_answers_are_their_words_with_the_sound_by_its_first_bytes(
    api: Api, data: bytes, media_type: str, ending: str
) -> None:
    audio = {"id": "a", "data": encoded(data), "transcript": "Four.", "expires_at": 1}
    output = await read(api, {"content": None, "audio": audio})
    (attachment,) = output.attachments
    assert output.text == "Four."
    assert (attachment.media_type, attachment.path) == (media_type, f"answer-1.{ending}")
    assert attachment.data == data


# --- costs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "cost"),
    [
        ({"cost": 0.25}, 0.25),
        ({"cost": 0}, 0.0),
        ({"cost": 0.25, "cost_details": {"upstream_inference_cost": 0.25}, "is_byok": False}, 0.25),
        ({"cost": 0.25, "cost_details": {"upstream_inference_cost": 5}, "is_byok": True}, 5.25),
        ({"cost": None}, None),
        ({"cost": "much"}, -1.0),
        ({"cost": -3}, -1.0),
        ({"cost": True}, -1.0),
    ],
)
async def test_what_openrouter_charged_is_the_cost(
    api: Api, counts: dict[str, Any], cost: float | None
) -> None:
    reply = {"choices": [{"message": {"content": "4"}}], "usage": TEN_AND_THREE | counts}
    api.reply(reply)
    for kind, expected in (("openrouter", cost), ("vllm", None)):
        spec = parse_target(f"{kind}:m@{api.url}", Params(), {})
        target = await TARGETS.get(spec.kind).open_target(spec, api._opening(**WITH_KEY))
        assert (await target.answer(make_prompt("hello"))).cost_usd == expected


async def test_no_usage_is_no_cost(api: Api) -> None:
    api.reply({"choices": [{"message": {"content": "4"}}]})
    spec = parse_target(f"openrouter:m@{api.url}", Params(), {})
    target = await TARGETS.get(spec.kind).open_target(spec, api._opening(**WITH_KEY))
    assert (await target.answer(make_prompt("hello"))).cost_usd is None


def test_a_budget_needs_no_price_of_what_reports_its_cost() -> None:
    words = ("openrouter:m", "openrouter:m@http://127.0.0.1:9/v1", "groq:m", "openai:m")
    assert [reports_cost(parse_target(word, Params(), {})) for word in words] == [True, True, False, False]
