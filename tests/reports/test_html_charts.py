"""The charts inside an HTML report."""

from __future__ import annotations

import base64
import re

import pytest

from proctor.reports.runs.html import render
from proctor.reports.runs.serialize import RunReport


@pytest.mark.slow
def test_charts_are_pictures_inside_the_file_for_a_light_and_a_dark_page(mixed_report: RunReport) -> None:
    text = "".join(render([mixed_report]))
    urls = re.findall(r'(?:src|srcset)="data:image/svg\+xml;base64,([^"]+)"', text)
    drawings = [base64.b64decode(url).decode() for url in urls]
    assert len(drawings) == 2
    assert all(drawing.startswith("<svg") for drawing in drawings)
    assert "Latency of answers" in drawings[0]
    dark, light = drawings
    assert 'fill="white"' in light
    assert 'fill="white"' not in dark
    assert text.count("<img ") == text.count(' alt="') == 1
