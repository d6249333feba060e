"""Real clients, pinned by `./run clients`, against the server over a fake service. Skipped (77) without their environment
in build/clients."""

import asyncio
import os
import pathlib
import subprocess
import sys
import time

PYTHON = pathlib.Path(os.environ["SOURCE"]) / "build" / "clients" / "bin" / "python"
try:
    import huggingface_hub
    import langchain_openai
    import ollama
    import openai
except ImportError:
    if not PYTHON.exists() or os.environ.get("CLIENTS_AGAIN"):
        sys.exit(77)
    os.environ["CLIENTS_AGAIN"] = "1"
    os.execv(PYTHON, [str(PYTHON), *sys.argv])

SERVER = str(pathlib.Path(os.environ["BRAID"]).parent / "tests" / "fake_server")
MODEL = "fake/model:1"
HELLO = "Hello there, h\u00e9!"
CALL = 'Fine.<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
ASK = [{"role": "user", "content": "hi"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "of a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


class Server:
    def __init__(self, reply, *key, **environment):
        self.process = subprocess.Popen(
            [SERVER, reply, *key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        self.address = self.process.stdout.readline().strip()

    def __enter__(self):
        return self.address

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


def openai_chat(client):
    assert client.models.list().data[0].id == MODEL
    assert client.models.retrieve(MODEL).object == "model"
    answer = client.chat.completions.create(model=MODEL, messages=ASK, n=2, seed=-1, stop=None, logprobs=True, top_logprobs=2)
    assert [c.message.content for c in answer.choices] == [HELLO, HELLO]
    assert answer.choices[0].finish_reason == "stop" and answer.usage.completion_tokens == 2 * (len(HELLO.encode()) + 1)
    assert answer.choices[0].logprobs.content[0].token == "H"
    chunks = list(client.chat.completions.create(model=MODEL, messages=ASK, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == HELLO
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["stop"]
    assert all(c.usage is None for c in chunks)
    options = {"include_usage": True}
    with client.chat.completions.stream(model=MODEL, messages=ASK, stream_options=options) as stream:
        assert {event.type for event in stream} >= {"content.delta", "content.done", "chunk"}
        final = stream.get_final_completion()
    assert final.choices[0].message.content == HELLO and final.choices[0].message.role == "assistant"
    assert final.usage.completion_tokens == len(HELLO.encode()) + 1


def openai_completions(client):
    answer = client.completions.create(model=MODEL, prompt=["a", "bc"], echo=True, max_tokens=3, logprobs=1)
    assert [c.text for c in answer.choices] == ["aHel", "bcHel"]
    assert answer.choices[1].logprobs.text_offset == [0, 1, 2, 3, 4]
    stream = client.completions.create(model=MODEL, prompt=[97, 98], stream=True, max_tokens=5, stop=["l"])
    assert "".join(c.choices[0].text for c in stream) == "He"


def openai_responses(client):
    answer = client.responses.create(model=MODEL, input="hi", instructions="Be brief.")
    assert answer.output_text == HELLO and answer.status == "completed" and answer.usage.output_tokens == len(HELLO.encode()) + 1
    with client.responses.stream(model=MODEL, input=[{"role": "user", "content": "hi"}], max_output_tokens=5) as stream:
        events = list(stream)
    kinds = [event.type for event in events]
    assert kinds[0] == "response.created" and "response.output_text.delta" in kinds and kinds[-1] == "response.incomplete"
    assert events[-1].response.output_text == HELLO[:5]
    with client.responses.stream(model=MODEL, input="hi") as stream:
        assert stream.get_final_response().output_text == HELLO


def openai_embeddings(client):
    packed = client.embeddings.create(model=MODEL, input=["a", "bc"])  # asks for base64
    plain = client.embeddings.create(model=MODEL, input=["a", "bc"], encoding_format="float")
    for a, b in zip(packed.data, plain.data):
        assert all(abs(x - y) < 1e-6 for x, y in zip(a.embedding, b.embedding)) and len(a.embedding) == 4
        assert abs(sum(x * x for x in a.embedding) - 1) < 1e-5


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def openai_errors(client, address):
    raises(openai.NotFoundError, lambda: client.completions.create(model="other", prompt="a"))
    error = raises(openai.BadRequestError, lambda: client.completions.create(model=MODEL, prompt="a", temperature=-1))
    assert error.param == "temperature" and "0 to 100" in error.message
    error = raises(openai.BadRequestError, lambda: client.completions.create(model=MODEL, prompt="a" * 5000))
    assert error.code == "context_length_exceeded"
    with Server(HELLO, "key") as locked:
        raises(openai.AuthenticationError, lambda: openai.OpenAI(base_url=locked + "/v1", api_key="bad").models.list())
        assert openai.OpenAI(base_url=locked, api_key="key").models.list().data  # no /v1 either


def openai_tools(client):
    answer = client.chat.completions.create(model=MODEL, messages=ASK, tools=TOOLS)
    assert answer.choices[0].finish_reason == "tool_calls" and answer.choices[0].message.content == "Fine."
    call = answer.choices[0].message.tool_calls[0]
    assert call.function.name == "weather" and call.function.arguments == '{"city":"Oslo"}'
    with client.chat.completions.stream(model=MODEL, messages=ASK, tools=TOOLS) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion().choices[0].message
    assert final.content == "Fine." and final.tool_calls[0].function.arguments == '{"city":"Oslo"}'
    history = ASK + [answer.choices[0].message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "wet"}]
    assert client.chat.completions.create(model=MODEL, messages=history, tools=TOOLS).choices
    flat = [{"type": "function", **TOOLS[0]["function"]}]
    output = client.responses.create(model=MODEL, input="hi", tools=flat).output
    assert [item.type for item in output] == ["message", "function_call"] and output[1].name == "weather"


def langchain(address):
    chat = langchain_openai.ChatOpenAI(base_url=address + "/v1", api_key="k", model=MODEL, stream_usage=True)
    assert chat.invoke("hi").content == HELLO
    chunks = list(chat.stream("hi"))
    whole = sum(chunks[1:], chunks[0])
    assert whole.content == HELLO and whole.response_metadata["finish_reason"] == "stop"
    assert whole.usage_metadata["output_tokens"] == len(HELLO.encode()) + 1

    async def stream():
        return "".join([chunk.content async for chunk in chat.astream("hi")])

    assert asyncio.run(stream()) == HELLO
    plain = langchain_openai.OpenAI(base_url=address + "/v1", api_key="k", model=MODEL)
    assert [g[0].text for g in plain.generate(["a", "b"]).generations] == [HELLO[:], HELLO[:]]
    text = langchain_openai.OpenAIEmbeddings(base_url=address + "/v1", api_key="k", model=MODEL, check_embedding_ctx_length=False)
    assert len(text.embed_query("a")) == 4


def hugging_face(address):
    for base in [address, address + "/", address + "/v1", address + "/v1/", address + "/v1/chat/completions"]:
        client = huggingface_hub.InferenceClient(base_url=base)  # names the model "dummy"
        assert client.chat_completion(messages=ASK).choices[0].message.content == HELLO
        stream = client.chat_completion(messages=ASK, stream=True)
        assert "".join(c.choices[0].delta.content or "" for c in stream) == HELLO


def ollama_client(address):
    client = ollama.Client(host=address)
    assert client.list().models[0].model == MODEL
    assert client.chat(model=MODEL + ":latest", messages=ASK).message.content == HELLO
    stream = list(client.chat(model=MODEL, messages=ASK, stream=True, options={"num_predict": 4, "temperature": 0}))
    assert "".join(c.message.content for c in stream) == HELLO[:4] and stream[-1].done and stream[-1].eval_count == 4
    assert client.generate(model=MODEL, prompt="hi", system="Be brief.").response == HELLO
    assert len(client.embed(model=MODEL, input=["a", "b"]).embeddings) == 2
    assert raises(ollama.ResponseError, lambda: client.chat(model="other", messages=ASK)).status_code == 404
    with Server(CALL) as calls:
        message = ollama.Client(host=calls).chat(model=MODEL, messages=ASK, tools=TOOLS).message
    assert message.tool_calls[0].function.arguments == {"city": "Oslo"}


def main():
    start = time.time()
    with Server(HELLO) as address:
        client = openai.OpenAI(base_url=address + "/v1", api_key="k")
        openai_chat(client)
        openai_completions(client)
        openai_responses(client)
        openai_embeddings(client)
        openai_errors(client, address)
        langchain(address)
        hugging_face(address)
        ollama_client(address)
    with Server(CALL) as address:
        openai_tools(openai.OpenAI(base_url=address + "/v1", api_key="k"))
    print(f"{time.time() - start:.1f} s")


main()
