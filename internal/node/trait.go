package node

import "regexp"

// Bounds of traits.
const (
	MaxTraits      = 50  // of one node
	maxTraitLength = 255 // bytes
)

// traitPattern matches custom traits (CUSTOM_) and names in the namespaces of the
// standard list (https://docs.openstack.org/os-traits/), which grows with every
// release and is therefore not copied here.
var traitPattern = regexp.MustCompile(`^(CUSTOM|COMPUTE|HW|MISC|OWNER|STORAGE)_[A-Z0-9_]+$`)

// CheckTrait returns a *ValidationError unless name is a valid trait.
func CheckTrait(name string) error {
	if len(name) > maxTraitLength || !traitPattern.MatchString(name) {
		return Invalid("Invalid trait %q: want CUSTOM_ and capital letters, digits or underscores, or a standard trait, of at most %d characters.",
			CutText(name), maxTraitLength)
	}
	return nil
}

// CheckTraits returns a *ValidationError unless a node may have these traits.
func CheckTraits(traits Words) error {
	list := traits.List()
	if len(list) > MaxTraits {
		return Invalid("A node can have at most %d traits, got %d.", MaxTraits, len(list))
	}
	for _, name := range list {
		if err := CheckTrait(name); err != nil {
			return err
		}
	}
	return nil
}
