package bmctest

import (
	"context"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// medium attaches an image, reads it back, detaches it and reads that back. It does nothing
// to a machine that has media of somebody else.
func (m *machine) medium(ctx context.Context) (finding, error) {
	before, err := m.readMedia(ctx)
	switch {
	case err != nil:
		return finding{}, err
	case len(before) > 0:
		return finding{
			fails: true, text: "nothing was attached: the machine has " + count(len(before), "medium", "media") + " already",
			advice: "Detach them first.",
		}, nil
	}
	attached := m.attach(ctx)
	// What the BMC may have accepted is taken out in any case.
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.options.Timeout)
	defer cancel()
	err = m.change(out, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return m.media.DetachMedia(ctx, m.node, nil, turn)
	})
	left, readErr := m.readMedia(out)
	switch {
	case err == nil && readErr != nil:
		err = readErr
	case err == nil && len(left) > 0:
		err = fmt.Errorf("the BMC said that the medium was detached, and shows it")
	}
	switch {
	case attached != nil && err != nil:
		return finding{}, fmt.Errorf("%w; and it may be attached still: %w", attached, err)
	case attached != nil:
		return finding{}, fmt.Errorf("%w; it is detached", attached)
	case err != nil:
		return finding{}, fmt.Errorf("the medium is attached still: %w", err)
	}
	return finding{text: "attached, read back, detached"}, nil
}

func (m *machine) attach(ctx context.Context) error {
	wanted := node.Medium{DeviceType: "cdrom", ImageURL: m.options.Medium}
	err := m.change(ctx, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return m.media.AttachMedium(ctx, m.node, wanted, turn)
	})
	if err != nil {
		return err
	}
	media, err := m.readMedia(ctx)
	if err == nil && !slices.ContainsFunc(media, func(one node.Medium) bool { return one.ImageURL == wanted.ImageURL }) {
		err = fmt.Errorf("the BMC said that the medium was attached, and does not show it")
	}
	return err
}

func (m *machine) readMedia(ctx context.Context) ([]node.Medium, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.Timeout)
	defer cancel()
	return m.media.Media(ctx, m.node)
}
