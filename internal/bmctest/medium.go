package bmctest

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// medium attaches an image, which the driver reads back in the form in which the BMC shows it. It
// then detaches the image and reads that back. It does nothing if the machine already has media,
// which belong to somebody else.
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
	wanted := node.Medium{DeviceType: "cdrom", ImageURL: m.options.Medium}
	attached := m.change(ctx, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return m.media.AttachMedium(ctx, m.node, wanted, turn)
	})
	// Detach in any case, because the BMC may have accepted the medium in spite of an error.
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

func (m *machine) readMedia(ctx context.Context) ([]node.Medium, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.Timeout)
	defer cancel()
	return m.media.Media(ctx, m.node)
}
