package inventory

import "fmt"

// capabilityNames are the system capabilities from bit 0 up (IEEE 802.1AB,
// table 8-4). Bit 0, "other", has no name of its own in inspection data.
var capabilityNames = []string{
	1:  "Repeater",
	2:  "Bridge",
	3:  "WLAN",
	4:  "Router",
	5:  "Telephone",
	6:  "DOCSIS cable device",
	7:  "Station only",
	8:  "C-Vlan",
	9:  "S-Vlan",
	10: "TPMR",
}

// physicalCapabilityNames are the advertised speeds from bit 0 up: the bits of
// ifMauAutoNegCapAdvertisedBits (RFC 4836) as IEEE 802.3 §79.3.1.2 carries them.
var physicalCapabilityNames = []string{
	0:  "1000BASE-T fdx",
	1:  "1000BASE-T hdx",
	2:  "1000BASE-X fdx",
	3:  "1000BASE-X hdx",
	4:  "Asym and Sym PAUSE fdx",
	5:  "Sym PAUSE fdx",
	6:  "Asym PAUSE fdx",
	7:  "PAUSE fdx",
	8:  "100BASE-T2 fdx",
	9:  "100BASE-T2 hdx",
	10: "100BASE-TX fdx",
	11: "100BASE-TX hdx",
	12: "10BASE-T4",
	13: "10BASE-T fdx",
	14: "10BASE-T hdx",
}

// mauTypeNames are the medium attachment units by the last number of their object
// identifier, dot3MauType (IANA-MAU-MIB, RFC 4836).
var mauTypeNames = []string{
	0:  "Unknown",
	1:  "AUI",
	2:  "10BASE-5",
	3:  "FOIRL",
	4:  "10BASE-2",
	5:  "10BASE-T duplex mode unknown",
	6:  "10BASE-FP",
	7:  "10BASE-FB",
	8:  "10BASE-FL duplex mode unknown",
	9:  "10BROAD36",
	10: "10BASE-T half duplex",
	11: "10BASE-T full duplex",
	12: "10BASE-FL half duplex",
	13: "10BASE-FL full duplex",
	14: "100BASE-T4",
	15: "100BASE-TX half duplex",
	16: "100BASE-TX full duplex",
	17: "100BASE-FX half duplex",
	18: "100BASE-FX full duplex",
	19: "100BASE-T2 half duplex",
	20: "100BASE-T2 full duplex",
	21: "1000BASE-X half duplex",
	22: "1000BASE-X full duplex",
	23: "1000BASE-LX half duplex",
	24: "1000BASE-LX full duplex",
	25: "1000BASE-SX half duplex",
	26: "1000BASE-SX full duplex",
	27: "1000BASE-CX half duplex",
	28: "1000BASE-CX full duplex",
	29: "1000BASE-T half duplex",
	30: "1000BASE-T full duplex",
	31: "10GBASE-X",
	32: "10GBASE-LX4",
	33: "10GBASE-R",
	34: "10GBASE-ER",
	35: "10GBASE-LR",
	36: "10GBASE-SR",
	37: "10GBASE-W",
	38: "10GBASE-EW",
	39: "10GBASE-LW",
	40: "10GBASE-SW",
	41: "10GBASE-CX4",
	42: "2BASE-TL",
	43: "10PASS-TS",
	44: "100BASE-BX10D",
	45: "100BASE-BX10U",
	46: "100BASE-LX10",
	47: "1000BASE-BX10D",
	48: "1000BASE-BX10U",
	49: "1000BASE-LX10",
	50: "1000BASE-PX10D",
	51: "1000BASE-PX10U",
	52: "1000BASE-PX20D",
	53: "1000BASE-PX20U",
	54: "10GBASE-T",
	55: "10GBASE-LRM",
	56: "1000BASE-KX",
	57: "10GBASE-KX4",
	58: "10GBASE-KR",
}

// mauTypeName keeps the number of types that are newer than the table.
func mauTypeName(kind int) string {
	if kind < len(mauTypeNames) {
		return mauTypeNames[kind]
	}
	return fmt.Sprintf("MAU type %d", kind)
}
