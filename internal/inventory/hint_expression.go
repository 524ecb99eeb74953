package inventory

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// expression is an operator and what stands behind it, in lower case.
type expression struct {
	operator string // "" for a plain value
	operands []string
}

// hintOperators are the operators of expressions; one that begins like another
// one comes first.
var hintOperators = []string{
	"<all-in>", "<in>", "<or>",
	"s==", "s!=", "s<=", "s<", "s>=", "s>",
	"==", "=", "!=", "<=", "<", ">=", ">",
}

// orders says which results of a comparison an operator accepts. A single "=" has
// always meant "at least".
var orders = map[string]func(order int) bool{
	"==": func(order int) bool { return order == 0 },
	"!=": func(order int) bool { return order != 0 },
	"=":  func(order int) bool { return order >= 0 },
	">=": func(order int) bool { return order >= 0 },
	"<=": func(order int) bool { return order <= 0 },
	">":  func(order int) bool { return order > 0 },
	"<":  func(order int) bool { return order < 0 },
}

// normalize is the form in which texts are compared.
func normalize(text string) string { return strings.ToLower(strings.TrimSpace(text)) }

// operatorOf returns the operator that text begins with, or "".
func operatorOf(text string) string {
	i := slices.IndexFunc(hintOperators, func(operator string) bool { return strings.HasPrefix(text, operator) })
	if i < 0 {
		return ""
	}
	return hintOperators[i]
}

// parseExpression splits text into operator and operands. Each operand has
// characters and none begins with an operator.
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

// overText returns what the expression says of an attribute that is text, in the
// form of normalize and not empty.
func (e expression) overText() (func(have string) bool, error) {
	switch e.operator {
	case "", "<or>":
		return func(have string) bool { return slices.Contains(e.operands, have) }, nil
	case "<in>", "<all-in>":
		return func(have string) bool {
			return !slices.ContainsFunc(e.operands, func(part string) bool { return !strings.Contains(have, part) })
		}, nil
	}
	if order, ofText := strings.CutPrefix(e.operator, "s"); ofText {
		accept, want := orders[order], collationKey(e.operands[0])
		return func(have string) bool { return accept(strings.Compare(collationKey(have), want)) }, nil
	}
	fits, err := e.overNumbers()
	if err != nil {
		return nil, err
	}
	return func(have string) bool {
		number, ok := parseNumber(have)
		return ok && fits(number)
	}, nil
}

// overNumbers returns what the expression says of a number.
func (e expression) overNumbers() (func(have float64) bool, error) {
	accept := orders[e.operator]
	switch {
	case e.operator == "", e.operator == "<or>":
		accept = orders["=="]
	case accept == nil:
		return nil, errorf("the operator %s compares text; numbers take =, ==, !=, >=, <=, >, < and <or>", e.operator)
	}
	want := make([]float64, len(e.operands))
	for i, operand := range e.operands {
		number, ok := parseNumber(operand)
		if !ok {
			return nil, errorf("the operator %s wants a number, got %s; text takes s==, s!=, s>=, s<=, s>, s<, <in>, <all-in> and <or>",
				e.operator, Quote(operand))
		}
		want[i] = number
	}
	return func(have float64) bool {
		return slices.ContainsFunc(want, func(number float64) bool { return accept(cmp.Compare(have, number)) })
	}, nil
}

func parseNumber(text string) (float64, bool) {
	number, err := strconv.ParseFloat(text, 64)
	return number, err == nil && !math.IsNaN(number) && !math.IsInf(number, 0)
}

// collationKey returns text in the form whose order the agent compares: percent-encoded,
// so that white space and most punctuation sort before letters and digits.
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
