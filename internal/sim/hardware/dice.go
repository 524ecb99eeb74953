package hardware

import "math/bits"

// dice is a deterministic source of random choices (SplitMix64). It does not use the standard
// library, because a machine must stay the same with every release of Go.
type dice struct{ state uint64 }

// newDice returns the dice of one machine. Neighbouring indices and seeds give
// unrelated sequences.
func newDice(seed uint64, index int) *dice {
	d := &dice{state: mix(seed)}
	d.state ^= mix(uint64(index) + 0x9e3779b97f4a7c15)
	return d
}

// next returns 64 evenly distributed bits.
func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	return mix(d.state)
}

// intN returns a number in [0, n); n must be positive.
func (d *dice) intN(n int) int {
	hi, _ := bits.Mul64(d.next(), uint64(n))
	return int(hi)
}

// percent returns true with a probability of p percent.
func (d *dice) percent(p int) bool { return d.intN(100) < p }

// pick returns one element of choices, which must not be empty.
func pick[T any](d *dice, choices []T) T { return choices[d.intN(len(choices))] }

// mix is the finaliser of SplitMix64. It is a bijection on 64-bit numbers in which every input bit
// affects every output bit.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
