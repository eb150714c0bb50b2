"""The unmodified OpenAI SDK for Python against a live server. Run by run.py."""

import base64
import json
import os
import struct
import threading

import openai

FACTS = json.loads(os.environ["LAMINA_FACTS"])
MODEL, WIDTH = FACTS["model"], FACTS["width"]


def check(ok, name, why=""):
    print(f"ok {name}" if ok else f"FAIL {name}: {why}", flush=True)


def client(url, **options):
    return openai.OpenAI(api_key="any", base_url=url + "/v1", **options)


def f32(values):
    return [struct.unpack("<f", struct.pack("<f", v))[0] for v in values]


def embeddings(c):
    tokens = [[1, 2, 3], [4, 5]]
    default = c.embeddings.create(model=MODEL, input=tokens)
    check([len(d.embedding) for d in default.data] == [WIDTH] * 2, "default (base64 on the wire)", "width")
    floats = c.embeddings.create(model=MODEL, input=tokens, encoding_format="float")
    check([f32(d.embedding) for d in floats.data] == [f32(d.embedding) for d in default.data], "float equals base64")
    packed = c.embeddings.create(model=MODEL, input=tokens, encoding_format="base64")
    raw = base64.b64decode(packed.data[0].embedding)
    check(list(struct.unpack(f"<{WIDTH}f", raw)) == f32(floats.data[0].embedding), "explicit base64")
    one = c.embeddings.create(model=MODEL, input=[1, 2, 3])
    check(len(one.data) == 1 and f32(one.data[0].embedding) == f32(floats.data[0].embedding), "one list of ids")
    check(default.usage.prompt_tokens == 5 and default.usage.total_tokens == 5, "usage", f"{default.usage}")
    check([d.index for d in default.data] == [0, 1] and default.object == "list", "shape")
    cut = c.embeddings.create(model=MODEL, input=tokens, dimensions=8)
    check(len(cut.data[0].embedding) == 8, "dimensions")
    alias = c.embeddings.create(model="text-embedding-3-small", input=tokens)
    check(len(alias.data) == 2, "alias")
    extra = c.embeddings.create(model=MODEL, input=tokens, user="me", extra_body={"unknown": {"a": [1]}})
    check(len(extra.data) == 2, "extra_body is tolerated")
    raw_reply = c.embeddings.with_raw_response.create(model=MODEL, input=tokens)
    check(bool(raw_reply.headers.get("x-request-id")), "x-request-id")
    if FACTS["texts"]:
        texts = c.embeddings.create(model=MODEL, input=["a text", "another text"])
        single = c.embeddings.create(model=MODEL, input="a text")
        check(texts.data[0].embedding == single.data[0].embedding, "one text and a list")


def models(c):
    listed = list(c.models.list())
    check(any(m.id == MODEL for m in listed), "models.list", f"{listed}")
    check(c.models.retrieve(MODEL).id == MODEL, "models.retrieve")


def expect(name, kind, status, code, call):
    try:
        call()
    except kind as e:
        ok = e.status_code == status and e.code == code and e.type and e.message
        check(ok, name, f"{e.status_code} {e.code} {e.type} {e.message}")
    except Exception as e:
        check(False, name, f"{type(e).__name__} {e}")
    else:
        check(False, name, "no error")


def errors(c):
    create = c.embeddings.create
    bad, missing = openai.BadRequestError, openai.NotFoundError
    expect("empty text", bad, 400, "empty_input", lambda: create(model=MODEL, input=""))
    expect("id out of range", bad, 400, "token_out_of_range", lambda: create(model=MODEL, input=[FACTS["vocab"]]))
    expect("too long", bad, 400, "context_length_exceeded", lambda: create(model=MODEL, input=[1] * (FACTS["positions"] + 1)))
    expect("unknown model", missing, 404, "model_not_found", lambda: create(model="nothing", input=[1]))
    expect("models.retrieve of an unknown model", missing, 404, "model_not_found", lambda: c.models.retrieve("nothing"))
    expect("dimensions too large", bad, 400, "out_of_range", lambda: create(model=MODEL, input=[1], dimensions=WIDTH + 1))


def retries(url):
    """A full queue: the SDK meets 429, waits as retry-after says and gets through."""
    c = client(url, max_retries=20)
    once = client(url, max_retries=0)
    tokens = [[1] * min(FACTS["positions"], 128)] * 16
    refused, wrong, lock = [0], [], threading.Lock()

    def ask(which):
        try:
            which.embeddings.create(model=MODEL, input=tokens)
        except openai.RateLimitError as e:
            with lock:
                refused[0] += 1
                if e.code != "overloaded" or which is c:
                    wrong.append(f"{e.code} {e.message}")
        except Exception as e:
            wrong.append(repr(e))
    for which in (once, c):
        threads = [threading.Thread(target=ask, args=(which,)) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    check(refused[0] > 0, "429 is a RateLimitError", "the queue never was full")
    check(not wrong, "429 is retried until served", f"{wrong[:2]}")


def main():
    c = client(os.environ["LAMINA_URL"], max_retries=0)
    embeddings(c)
    models(c)
    errors(c)
    retries(os.environ["LAMINA_BUSY"])
    print("end")


main()
