"""Who may ask the served page, and what it answers; without a socket, but for ports."""

import asyncio
import json

import httpx
import pytest

from codesign import api
from codesign.base.errors import InputError
from codesign.serve import server
from codesign.serve.session import Session

TOKEN, PORT = "t0ken", 8765


@pytest.fixture(scope="module")
def session():
    prepared = api.prepare(model="llama-3.3-70b", workload="osworld", phase="decode")
    return Session(prepared, "decode")


@pytest.fixture(scope="module")
def application(session):
    return server.application(session, TOKEN, PORT)


def ask(application, method, path, headers=None, content=None):
    async def answer():
        transport = httpx.ASGITransport(app=application)
        base = f"http://{server.HOST}:{PORT}"
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(method, path, headers=headers, content=content)

    return asyncio.run(answer())


def test_the_page_loads_nothing_from_elsewhere_and_says_so_to_the_browser(application):
    page = ask(application, "GET", f"/{TOKEN}/")
    assert page.status_code == 200 and "http" not in page.text.replace("http-equiv", "")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy
    assert page.headers["referrer-policy"] == "no-referrer"
    for name in ("style.css", "program.js", "start.json"):
        assert ask(application, "GET", f"/{TOKEN}/{name}").status_code == 200


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {}, 404),
        ("/wrong/", {}, 404),
        ("/wrong/start.json", {}, 404),
        (f"/{TOKEN}/../pyproject.toml", {}, 404),
        (f"/{TOKEN}/%2e%2e/pyproject.toml", {}, 404),
        (f"/{TOKEN}/", {"host": "evil.example"}, 403),
        (f"/{TOKEN}/", {"host": f"evil.example:{PORT}"}, 403),
        (f"/{TOKEN}/", {"origin": "http://evil.example"}, 403),
        (f"/{TOKEN}/", {"origin": "null"}, 403),
        (f"/{TOKEN}/", {"host": f"localhost:{PORT}"}, 200),
    ],
)
def test_only_this_machine_with_the_token_is_answered(application, path, headers, status):
    assert ask(application, "GET", path, headers).status_code == status


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b'{"codes": [1]}',
        b'{"codes": "x"}',
        b'{"codes":[1.5]}',
        b'{"codes": [' + b", ".join([b"9223372036854775808"] * 40) + b"]}",
    ],
)
def test_a_question_that_is_none_is_refused_in_one_line(application, content):
    answer = ask(application, "POST", f"/{TOKEN}/design", content=content)
    assert answer.status_code == 400
    assert "expected" in answer.text and "\n" not in answer.text


def test_a_design_is_answered_as_evaluate_explains_it(application, session):
    start = session.start()
    codes = next(item["codes"] for item in start["starts"] if item["name"] == "D1")
    reply = ask(application, "POST", f"/{TOKEN}/design", content=json.dumps({"codes": codes}))
    answer = reply.json()
    expected = api.evaluate(design="D1", model="llama-3.3-70b", workload="osworld", phase="decode")
    values = {item["title"]: item["value"] for item in answer["figures"]}
    assert values["TDP"] == pytest.approx(expected.metrics["tdp_watts"])
    assert values["throughput"] == pytest.approx(expected.metrics["throughput_tokens_per_s"])
    assert answer["codes"] == codes and not answer["broken"]
    assert "Roofline" in answer["charts"] and "Time line of one pass" in answer["charts"]


def test_a_design_that_breaks_a_limit_names_the_nearest_that_keeps_all(session):
    start = session.start()
    names = [item["name"] for item in start["parameters"]]
    codes = list(next(item["codes"] for item in start["starts"] if item["name"] == "Base"))
    codes[names.index("tier1_stacks")] = 0
    answer = session.answer(codes)
    assert any("capacity" in text for text in answer["broken"])
    nearest = answer["nearest"]
    assert "tier 1 stacks 1 →" in nearest["text"] and "," not in nearest["text"]
    assert not session.answer(nearest["codes"])["broken"]


def test_a_choice_that_needs_another_gets_its_first_value(session):
    start = session.start()
    names = [item["name"] for item in start["parameters"]]
    codes = list(next(item["codes"] for item in start["starts"] if item["name"] == "Base"))
    codes[names.index("tier2_technology")] = 0
    answer = session.answer(codes)
    assert answer["figures"] and len(answer["codes"]) == len(names)


def test_a_port_in_use_is_one_line():
    with server.listen(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        port = listener.getsockname()[1]
        with pytest.raises(InputError, match=f"--port: expected a free port, got {port}: .*in use"):
            server.listen(port)


def test_tokens_differ_and_cannot_be_guessed():
    first, second = server.new_token(), server.new_token()
    assert first != second and len(first) >= 43
