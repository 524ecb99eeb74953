package ipmi

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// answering returns the address of a BMC that answers each datagram with what answer makes of it.
func answering(t *testing.T, answer func(datagram []byte) []byte) string {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buffer := make([]byte, maxDatagram)
		for {
			n, client, err := conn.ReadFromUDP(buffer)
			if err != nil {
				return
			}
			if _, err := conn.WriteToUDP(answer(buffer[:n]), client); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	return conn.LocalAddr().String()
}

func TestAccountBelowTheWantedPrivilegeLevelIsRefusedForGood(t *testing.T) {
	const console, bmc = 1, 2 // IDs of the session
	suite := suites[0]
	keys := suite.deriveKeys([]byte("secret"))
	for _, code := range []completion{0x80, 0x81} {
		address := answering(t, func(datagram []byte) []byte {
			asked, ok := suite.unseal(keys, bmc, datagram)
			if !ok {
				return nil
			}
			said := []byte{consoleAddress, asked[1] | 1<<2}
			said = append(said, checksum(said))
			said = append(said, bmcAddress, asked[4], asked[5], byte(code))
			said = append(said, checksum(said[3:]))
			return suite.seal(keys, packet{kind: payloadMessage, session: console, sequence: 1, payload: said})
		})
		conn, err := dialUDP(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		w := &wire{conn}
		defer w.close()
		s := &session{wire: w, suite: suite, keys: keys, answer: 5 * time.Second, id: console, bmcID: bmc}
		err = (&call{}).failure("read the power state", s.raise(t.Context(), 4))
		var failure *node.DriverError
		if !errors.As(err, &failure) || failure.Retryable || !strings.Contains(failure.Reason, "the account does not have the privilege level") {
			t.Errorf("completion code %#02x: %v, want a final failure that names the privilege level", byte(code), err)
		}
	}
}

func TestAcceptedCredentialsAreTriedAgainThoughTheyAreRefusedForLong(t *testing.T) {
	now := time.Now()
	known := New(Options{Clock: func() time.Time { return now }}).accounts
	account := known.take(access{username: "admin"})
	account.tries.Accept()
	known.release(account)
	for range 3 {
		account := known.take(access{username: "admin"}) // as another call does
		account.tries.Refuse()
		now = now.Add(time.Hour)
		if err := account.tries.Permitted(); err != nil {
			t.Errorf("an hour after a refusal: %v, want a try", err)
		}
		known.release(account)
	}
}

func TestSuiteThatTheBMCLacksIsFollowedByTheNextOne(t *testing.T) {
	for _, refusal := range []status{0x04, 0x05, 0x06, 0x07, 0x10, 0x11, 0x12} {
		offers := make(chan byte, len(suites)) // authentication algorithms
		address := answering(t, func(datagram []byte) []byte {
			asked, ok := decodePacket(datagram)
			if !ok || asked.kind != payloadOpenRequest {
				return nil
			}
			offers <- asked.payload[12]
			return packet{kind: payloadOpenResponse, payload: append([]byte{0, byte(refusal), 0, 0}, asked.payload[4:8]...)}.encode()
		})
		_, err := connect(t.Context(), access{address: address, privilege: 4}, Options{Answer: 5 * time.Second, Dial: dialUDP})
		var offered []byte
		for len(offers) > 0 { // each is there before its answer
			offered = append(offered, <-offers)
		}
		if want := []byte{suites[0].authentication, suites[1].authentication}; !bytes.Equal(offered, want) {
			t.Errorf("status %#02x: authentication algorithms %v were offered, want %v", byte(refusal), offered, want)
		}
		if err == nil || !strings.Contains(err.Error(), "correct ipmi_cipher_suite") {
			t.Errorf("status %#02x of both: %v, want the key to correct", byte(refusal), err)
		}
	}
}
