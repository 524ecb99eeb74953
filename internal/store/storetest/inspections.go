package storetest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var inspectionBehaviours = []behaviour{
	{"documents are kept byte for byte", checkDocumentBytes},
	{"an unfinished inspection has no result", checkUnfinishedInspection},
	{"a result joins the inventory with what hooks left", checkInspectionResult},
	{"a newer result replaces the older and drops its document", checkInspectionReplaced},
	{"documents without a result can be dropped", checkUnusedDocuments},
	{"a result can move to another node", checkMovedInspection},
	{"the last document is the one that came last", checkLastDocument},
}

func (e *env) addDocument(n *node.Node, data node.InspectionData) int64 {
	e.t.Helper()
	var id int64
	e.write(func(tx *store.Tx) (err error) {
		id, err = tx.AddDocument(n.ID, data)
		return err
	})
	return id
}

func (e *env) finishInspection(n *node.Node, document int64, pluginData string) {
	e.t.Helper()
	e.write(func(tx *store.Tx) error { return tx.FinishInspection(n.ID, document, []byte(pluginData)) })
}

func document(inventory, pluginData string) node.InspectionData {
	return node.InspectionData{Inventory: []byte(inventory), PluginData: []byte(pluginData)}
}

func checkDocumentBytes(t *testing.T, e *env) {
	n := e.createNode()
	for name, want := range map[string]node.InspectionData{
		"odd spacing": document("{ \"b\" : 1.00 ,\n\t\"a\":\"\\u00fc ü\"}", "{}"),
		"large":       document(`{"pad":"`+strings.Repeat("x", 3<<20)+`"}`, `{"y":"`+strings.Repeat("y", 1<<20)+`"}`),
	} {
		id := e.addDocument(n, want)
		e.read(func(tx *store.Tx) error {
			got, err := tx.Document(id)
			if err == nil && (!bytes.Equal(want.Inventory, got.Inventory) || !bytes.Equal(want.PluginData, got.PluginData)) {
				t.Errorf("%s: document changed on its way", name)
			}
			return err
		})
	}
}

func checkUnfinishedInspection(t *testing.T, e *env) {
	n := e.createNode()
	e.addDocument(n, document("{}", "{}"))
	wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Inspection(n)
		return err
	}), node.ErrNotFound)
	wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Document(4711)
		return err
	}), node.ErrNotFound)
}

func (e *env) wantInspection(n *node.Node, want node.InspectionData) {
	e.t.Helper()
	e.read(func(tx *store.Tx) error {
		got, err := tx.Inspection(n)
		if err == nil {
			if diff := cmp.Diff(want, *got); diff != "" {
				e.t.Errorf("result (-want +got):\n%s", diff)
			}
		}
		return err
	})
}

func checkInspectionResult(_ *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	e.finishInspection(other, e.addDocument(other, document(`{"of":"other"}`, "{}")), "{}")
	id := e.addDocument(n, document(`{"a": 1}`, `{"raw":true}`))
	e.finishInspection(n, id, `{"hooks":true}`)
	e.wantInspection(n, document(`{"a": 1}`, `{"hooks":true}`))
	e.finishInspection(n, id, `{"hooks":"again"}`)
	e.wantInspection(n, document(`{"a": 1}`, `{"hooks":"again"}`))
}

func checkInspectionReplaced(t *testing.T, e *env) {
	n := e.createNode()
	first := e.addDocument(n, document(`{"n":1}`, "{}"))
	failed := e.addDocument(n, document(`{"n":2}`, "{}"))
	e.finishInspection(n, first, "{}")
	second := e.addDocument(n, document(`{"n":3}`, "{}"))
	e.finishInspection(n, second, "{}")
	e.wantInspection(n, document(`{"n":3}`, "{}"))
	for _, gone := range []int64{first, failed} {
		wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Document(gone)
			return err
		}), node.ErrNotFound)
	}
}

func checkUnusedDocuments(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	drop := func() {
		e.write(func(tx *store.Tx) error { return tx.DropUnused(n.ID) })
	}
	kept := func(id int64) (there bool) {
		e.read(func(tx *store.Tx) error {
			_, err := tx.Document(id)
			there = err == nil
			return nil
		})
		return there
	}
	foreign := e.addDocument(other, document(`{"n":0}`, "{}"))
	failed := e.addDocument(n, document(`{"n":1}`, "{}"))
	drop()
	if kept(failed) || !kept(foreign) {
		t.Error("the document of a failed inspection stayed, or that of another node went")
	}
	result := e.addDocument(n, document(`{"n":2}`, "{}"))
	e.finishInspection(n, result, "{}")
	failed = e.addDocument(n, document(`{"n":3}`, "{}"))
	drop()
	if kept(failed) || !kept(result) {
		t.Error("the document of a later failed inspection stayed, or that of the result went")
	}
	e.wantInspection(n, document(`{"n":2}`, "{}"))
}

func checkLastDocument(t *testing.T, e *env) {
	n := e.createNode()
	wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
		_, err := tx.LastDocument(n)
		return err
	}), node.ErrNotFound)
	e.finishInspection(n, e.addDocument(n, document(`{"n":1}`, "{}")), "{}")
	newest := e.addDocument(n, document(`{"n":2}`, "{}"))
	e.addDocument(e.createNode(), document(`{"n":3}`, "{}"))
	e.read(func(tx *store.Tx) error {
		last, err := tx.LastDocument(n)
		if err == nil && string(last.Inventory) != `{"n":2}` {
			t.Errorf("last document = %s, want the newer one although it has no result", last.Inventory)
		}
		if err != nil {
			return err
		}
		id, err := tx.LastDocumentID(n)
		if id != newest {
			t.Errorf("its key is %d, want %d", id, newest)
		}
		return err
	})
}

func checkMovedInspection(t *testing.T, e *env) {
	from, to := e.createNode(), e.createNode()
	e.finishInspection(from, e.addDocument(from, document(`{"a":1}`, "{}")), `{"b":2}`)
	e.write(func(tx *store.Tx) error {
		if err := tx.MoveInspection(from.ID, to.ID); err != nil {
			return err
		}
		return tx.DeleteNode(from)
	})
	e.read(func(tx *store.Tx) error {
		got, err := tx.Inspection(to)
		if err == nil && (string(got.Inventory) != `{"a":1}` || string(got.PluginData) != `{"b":2}`) {
			t.Errorf("result = %s, %s; want that of the other node", got.Inventory, got.PluginData)
		}
		return err
	})
}
