// /v1/chat/completions as a stream.

// Calls `onEvent` with the data of each event of a stream.
async function readEvents(body, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: ")) onEvent(line.slice("data: ".length));
    }
  }
}

// Calls `onDelta(delta, tokens)` with each part of an answer; returns why it ended.
async function readCompletion(answer, onDelta) {
  let ending = null;
  let failure = null;
  let tokens = 0;
  await readEvents(answer.body, (data) => {
    if (data === "[DONE]" || failure) return;
    const event = JSON.parse(data);
    if (event.error) {
      failure = {sentence: event.error.message, retryAfter: null};
      return;
    }
    const [choice] = event.choices;
    if (choice && choice.finish_reason) ending = choice.finish_reason;
    if (event.usage) tokens = event.usage.completion_tokens;
    onDelta(choice && choice.delta || {}, tokens);
  });
  if (failure) throw failure;
  if (ending === null) throw new Error("the stream has no end");
  return ending;
}
