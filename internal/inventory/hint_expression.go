package inventory

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// expression is an operator and the values after it, in lower case.
type expression struct {
	operator string // "" for a plain value
	operands []string
}

// hintOperators are the operators of expressions. An operator that begins with another operator
// comes before that one.
var hintOperators = []string{
	"<all-in>", "<in>", "<or>",
	"s==", "s!=", "s<=", "s<", "s>=", "s>",
	"==", "=", "!=", "<=", "<", ">=", ">",
}

// textOrders are the comparisons of texts in the form of collationKey.
var textOrders = map[string]func(have, want string) bool{
	"s==": func(have, want string) bool { return have == want },
	"s!=": func(have, want string) bool { return have != want },
	"s>=": func(have, want string) bool { return have >= want },
	"s<=": func(have, want string) bool { return have <= want },
	"s>":  func(have, want string) bool { return have > want },
	"s<":  func(have, want string) bool { return have < want },
}

// numberOrders are the comparisons of numbers. A single "=" means "at least", and always has.
var numberOrders = map[string]func(have, want float64) bool{
	"==": func(have, want float64) bool { return have == want },
	"!=": func(have, want float64) bool { return have != want },
	"=":  func(have, want float64) bool { return have >= want },
	">=": func(have, want float64) bool { return have >= want },
	"<=": func(have, want float64) bool { return have <= want },
	">":  func(have, want float64) bool { return have > want },
	"<":  func(have, want float64) bool { return have < want },
}

// normalize returns a text in the form for comparisons.
func normalize(text string) string { return strings.ToLower(strings.TrimSpace(text)) }

// operatorOf returns the operator that text begins with, or "".
func operatorOf(text string) string {
	i := slices.IndexFunc(hintOperators, func(operator string) bool { return strings.HasPrefix(text, operator) })
	if i < 0 {
		return ""
	}
	return hintOperators[i]
}

// parseExpression splits text into operator and operands. No operand is empty or begins with an
// operator.
func parseExpression(text string) (expression, error) {
	text = normalize(text)
	e := expression{operator: operatorOf(text)}
	rest := strings.TrimPrefix(text, e.operator)
	switch {
	case e.operator == "":
		e.operands = []string{rest}
	case e.operator == "<or>":
		e.operands = strings.Split(rest, e.operator)
	case strings.Contains(rest, e.operator):
		return e, errorf("the operator %s comes twice in %s; only <or> may be repeated", e.operator, Quote(text))
	case e.operator == "<all-in>":
		e.operands = strings.Fields(rest)
	default:
		e.operands = []string{rest}
	}
	if len(e.operands) == 0 {
		return e, errorf("there is no value behind %s", e.operator)
	}
	for i, operand := range e.operands {
		operand = strings.TrimSpace(operand)
		switch {
		case operand == "" && e.operator == "":
			return e, errorf("is empty, want a value")
		case operand == "":
			return e, errorf("there is no value behind %s in %s", e.operator, Quote(text))
		case operatorOf(operand) != "":
			return e, errorf("the value %s begins with the operator %s", Quote(operand), operatorOf(operand))
		}
		e.operands[i] = operand
	}
	return e, nil
}

// overText returns the comparison of the expression for a text attribute. Have is in the form of
// normalize; it is "" for an unknown attribute. Ok is false for a text that the operator cannot
// compare.
func (e expression) overText() (compare func(have string) (fits, ok bool), err error) {
	switch e.operator {
	case "", "<or>":
		return func(have string) (bool, bool) { return slices.Contains(e.operands, have), true }, nil
	case "<in>":
		return func(have string) (bool, bool) { return strings.Contains(have, e.operands[0]), true }, nil
	case "<all-in>":
		// The agent expects a list and searches it for the words. But it percent-encodes every
		// attribute first, including brackets, so no attribute is a list.
		return func(string) (bool, bool) { return false, false }, nil
	}
	if accept := textOrders[e.operator]; accept != nil {
		want := collationKey(e.operands[0])
		return func(have string) (bool, bool) {
			if have == "" {
				return e.operator == "s!=", true
			}
			return accept(collationKey(have), want), true
		}, nil
	}
	fits, err := e.overNumbers()
	if err != nil {
		return nil, err
	}
	return func(have string) (bool, bool) {
		number, ok := parseNumber(have)
		return ok && fits(number), ok
	}, nil
}

// wants returns what the operator compares with, if that is not any text.
func (e expression) wants() string {
	if e.operator == "<all-in>" {
		return "list"
	}
	return "number"
}

// overNumbers returns the comparison of the expression for a number.
func (e expression) overNumbers() (func(have float64) bool, error) {
	accept := numberOrders[e.operator]
	switch {
	case e.operator == "", e.operator == "<or>":
		accept = numberOrders["=="]
	case accept == nil:
		return nil, errorf("the operator %s compares text; numbers take =, ==, !=, >=, <=, >, < and <or>", e.operator)
	}
	want := make([]float64, len(e.operands))
	for i, operand := range e.operands {
		number, ok := parseNumber(operand)
		if !ok || math.IsNaN(number) || math.IsInf(number, 0) {
			return nil, errorf("the operator %s wants a number, got %s; text takes s==, s!=, s>=, s<=, s>, s<, <in> and <or>",
				e.operator, Quote(operand))
		}
		want[i] = number
	}
	return func(have float64) bool {
		return slices.ContainsFunc(want, func(number float64) bool { return accept(have, number) })
	}, nil
}

// numberForm matches numbers in the form of Python's float(), without plus signs, because the agent
// encodes those before it parses numbers.
var numberForm = regexp.MustCompile(`^-?(?:(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:e-?\d+(?:_\d+)*)?|inf|infinity|nan)$`)

// parseNumber parses a number in lower case as the agent does. A number that is too large becomes
// infinite.
func parseNumber(text string) (float64, bool) {
	if !numberForm.MatchString(text) {
		return 0, false
	}
	if strings.HasSuffix(text, "nan") {
		return math.NaN(), true
	}
	number, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	return number, err == nil || errors.Is(err, strconv.ErrRange)
}

// collationKey returns text in the form that the agent compares for order: percent-encoded, so that
// white space and most punctuation sort before letters and digits.
func collationKey(text string) string {
	const hex = "0123456789ABCDEF"
	var key strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_.-~/", c) >= 0:
			key.WriteByte(c)
		default:
			key.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return key.String()
}
