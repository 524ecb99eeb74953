package story

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/test/process"
)

const (
	stormPosts   = 200
	stormPosters = 16
	stormNICs    = 4
)

func TestKilledDuringAStormNothingAnsweredIsLost(t *testing.T) {
	address := process.Address(t)
	settings := []string{
		"database.dir=" + t.TempDir(), "auto_discovery.enabled=true", "auto_discovery.driver=manual-management",
		"inspector.loopback_networks=127.0.0.0/8", // where simulated machines are
	}
	engineProcess := startEngineProcess(t, address, settings...)

	// The engine is killed while posts are under way.
	var answered sync.Map // number of the machine → UUID
	var count atomic.Int32
	killed := make(chan struct{})
	storm(func(i int) {
		uuid, err := post(address, i)
		if err != nil {
			return
		}
		answered.Store(i, uuid)
		if count.Add(1) == stormPosts/3 {
			engineProcess.Kill()
			close(killed)
		}
	})
	select {
	case <-killed:
	default:
		t.Fatalf("only %d posts were answered, the engine was never killed", count.Load())
	}
	t.Logf("killed after %d of %d posts were answered", count.Load(), stormPosts)

	startEngineProcess(t, address, settings...)
	client, err := ironic.New(ironic.Options{Endpoint: "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	complete := checkComplete(t, client)
	answered.Range(func(i, uuid any) bool {
		if !complete[uuid.(string)] { //nolint:forcetypeassert // stored above
			t.Errorf("machine %d was answered with node %s, which is not there complete", i, uuid)
		}
		return true
	})

	// The other agents try again. After that, every machine is there exactly once.
	storm(func(i int) {
		if _, done := answered.Load(i); !done {
			_, _ = post(address, i)
		}
	})
	if complete = checkComplete(t, client); len(complete) != stormPosts {
		t.Errorf("%d nodes after all machines posted, want %d", len(complete), stormPosts)
	}
}

// checkComplete waits until the inspection of every node has ended, and checks that no node is
// incomplete. It returns the UUIDs of the nodes.
func checkComplete(t *testing.T, client *ironic.Client) map[string]bool {
	t.Helper()
	complete := map[string]bool{}
	eventually(t, func(ctx context.Context) error {
		nodes, err := allNodes(ctx, client, ironic.NodeQuery{Fields: []string{"uuid", "inspection_finished_at", "last_error"}})
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.InspectionFinishedAt == nil || n.InspectionFinishedAt.IsZero() {
				return fmt.Errorf("inspection of node %s has not ended: %s", n.UUID, n.LastError)
			}
			complete[n.UUID] = true
		}
		return nil
	})
	for uuid := range complete {
		ports, err := client.Ports(t.Context(), uuid)
		if err != nil || len(ports) != stormNICs {
			t.Errorf("node %s has %d ports, %v, want %d", uuid, len(ports), err, stormNICs)
		}
		if _, err := client.Inventory(t.Context(), uuid); err != nil {
			t.Errorf("node %s has no inventory: %v", uuid, err)
		}
	}
	return complete
}

// storm calls do for every machine from several goroutines at once.
func storm(do func(i int)) {
	var posters sync.WaitGroup
	next := make(chan int)
	for range stormPosters {
		posters.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range stormPosts {
		next <- i
	}
	close(next)
	posters.Wait()
}

// post sends the inspection document of machine i and returns the UUID of its
// node.
func post(address string, i int) (string, error) {
	document := hardware.Options{NICs: stormNICs}.Document(14, i)
	answer, err := http.Post("http://"+address+"/v1/continue_inspection", "application/json", bytes.NewReader(document))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var body struct {
		UUID string `json:"uuid"`
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("answer %s", answer.Status)
	}
	return body.UUID, json.NewDecoder(answer.Body).Decode(&body)
}

// startEngineProcess runs an engine in a process of its own. settings have the form
// section.key=value. The end of the test kills the process.
func startEngineProcess(t *testing.T, address string, settings ...string) *process.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"api.listen=" + address}, settings...)...)
	cmd.Env = append(os.Environ(), engineProcess+"=1")
	p := process.Run(t, cmd, filepath.Join(t.TempDir(), "engine.log"))
	p.AwaitAnswer(t, address)
	return p
}

// runEngine is the engine process: arguments are section.key=value.
func runEngine(ctx context.Context, args []string) error {
	set := map[string]string{}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		set[key] = value
	}
	cfg, err := engine.LoadConfig(engine.Sources{Set: set})
	if err != nil {
		return err
	}
	e, err := engine.Start(ctx, engine.Options{Config: cfg, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return e.Stop(context.WithoutCancel(ctx))
}
