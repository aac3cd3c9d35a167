// How an answer is randomized on this device, before anything is sent.
//
// Whole numbers only, so the chances are exact: the same steps as in Python, word by word. The
// random words come from the browser's Web Crypto. Nothing here talks to the network.

const TOP = 1n << 64n;

// So many random words of 64 bits, from the device's secure generator.
export function systemWords(count) {
  const bytes = new DataView(crypto.getRandomValues(new Uint8Array(8 * count)).buffer);
  return Array.from({ length: count }, (_, at) => bytes.getBigUint64(8 * at, true));
}

// Whole numbers from 0 to limit - 1, each equally likely. A word beyond the largest multiple of
// the limit would favour small numbers, so it is drawn again.
export function below(limit, size, words) {
  const highest = TOP - 1n - (TOP % limit);
  const drawn = words(size);
  let again = drawn.map((_, at) => at).filter((at) => drawn[at] > highest);
  while (again.length > 0) {
    const fresh = words(again.length);
    again.forEach((at, place) => { drawn[at] = fresh[place]; });
    again = again.filter((at) => drawn[at] > highest);
  }
  return drawn.map((word) => word % limit);
}

// Say the answer with weight `truth`, and each of the size - 1 others with weight `lie`.
export function respond(answer, size, truth, lie, words) {
  const [drawn] = below(truth + BigInt(size - 1) * lie, 1, words);
  if (drawn < truth) return answer;
  const other = Number((drawn - truth) / lie);
  return other < answer ? other : other + 1;
}

// The report of an answer: the place of a choice, counted from 0.
export function randomize(round, answer, words = systemWords) {
  return respond(answer, round.choices.length, BigInt(round.truth), BigInt(round.lie), words);
}
