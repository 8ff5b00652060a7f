// Tensors of a safetensors file: https://github.com/huggingface/safetensors#format

const KINDS = {
  F64: Float64Array,
  F32: Float32Array,
  F16: Uint16Array,
  I64: BigInt64Array,
  U64: BigUint64Array,
  I32: Int32Array,
  U16: Uint16Array,
  I8: Int8Array,
  U8: Uint8Array,
};
const MOST_HEADER = 65536;

/** Tensors by name: {shape, values}. Half floats come as float32. What is not valid throws an Error. */
export function parseTensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  if (!(length <= MOST_HEADER && 8 + length <= buffer.byteLength)) {
    throw new Error("the file of tensors has no valid header");
  }
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = new Map();
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const Kind = KINDS[dtype];
    const count = shape.reduce((product, size) => product * size, 1);
    const bytes = buffer.slice(8 + length + from, 8 + length + to);
    if (!Kind || bytes.byteLength !== count * Kind.BYTES_PER_ELEMENT) {
      throw new Error(`the tensor ${name} is not valid`);
    }
    const values = new Kind(bytes);
    tensors.set(name, { shape, values: dtype === "F16" ? halfFloats(values) : values });
  }
  return tensors;
}

/** float16 as float32, exactly. */
function halfFloats(halves) {
  const known = new Float32Array(65536);
  for (let half = 0; half < 65536; half++) {
    const sign = half & 0x8000 ? -1 : 1;
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    if (exponent === 0) known[half] = sign * fraction * 2 ** -24;
    else if (exponent < 31) known[half] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
    else known[half] = fraction ? NaN : sign * Infinity;
  }
  const floats = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) floats[i] = known[halves[i]];
  return floats;
}
