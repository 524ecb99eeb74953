package httpapi

import (
	"os"
	"testing"

	"github.com/ingot-metal/ingot/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
