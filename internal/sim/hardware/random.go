package hardware

import "math/bits"

// random is a deterministic source of random choices (SplitMix64). It does not use the standard
// library, because a machine must stay the same with every release of Go.
type random struct{ state uint64 }

// newRandom returns the source of one machine. Neighbouring indices and seeds give
// unrelated sequences.
func newRandom(seed uint64, index int) *random {
	r := &random{state: mix(seed)}
	r.state ^= mix(uint64(index) + 0x9e3779b97f4a7c15)
	return r
}

// next returns 64 evenly distributed bits.
func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	return mix(r.state)
}

// intN returns a number in [0, n); n must be positive.
func (r *random) intN(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

// percent returns true with a probability of p percent.
func (r *random) percent(p int) bool { return r.intN(100) < p }

// pick returns one element of choices, which must not be empty.
func pick[T any](r *random, choices []T) T { return choices[r.intN(len(choices))] }

// mix is the finaliser of SplitMix64. It is a bijection on 64-bit numbers in which every input bit
// affects every output bit.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
