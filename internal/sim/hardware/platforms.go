package hardware

import "slices"

// platforms has all platforms. A change of this list changes the machines of every seed, which
// users notice.
var platforms = slices.Concat(serverPlatforms, smallPlatforms)

var serverPlatforms = []platform{
	{
		kind: Server, weight: 22, manufacturer: "Dell Inc.", architecture: "x86_64",
		firmwareVendor: "Dell Inc.",
		products: []product{
			{"PowerEdge R640 (SKU=NotProvided;ModelName=PowerEdge R640)", []int{1, 2, 2}, []cpuModel{xeon4210, xeon6230}, []release{{"2.10.2", "02/24/2021"}, {"2.19.1", "06/04/2023"}}},
			{"PowerEdge R650 (SKU=0912;ModelName=PowerEdge R650)", []int{2}, []cpuModel{xeon6338, xeon8358}, []release{{"1.6.5", "04/15/2022"}, {"1.11.2", "08/18/2023"}}},
			{"PowerEdge R750 (SKU=090E;ModelName=PowerEdge R750)", []int{2}, []cpuModel{xeon6338, xeon8358}, []release{{"1.8.2", "09/14/2022"}, {"1.11.2", "08/18/2023"}}},
			{"PowerEdge C6525 (SKU=0A21;ModelName=PowerEdge C6525)", []int{2}, []cpuModel{epyc7302, epyc7763}, []release{{"2.9.3", "09/20/2022"}, {"2.12.4", "07/26/2023"}}},
		},
		serial: "*******", ouis: ouiDell,
		memoryGiB: []int{192, 256, 384, 512},
		nics: [][]nicGroup{
			{{broadcom5720, 2, true}, {mellanoxCX4Lx, 2, false}},
			{{broadcom57414, 2, true}, {intelE810, 2, false}},
			{{broadcom5720, 2, true}, {intelX710, 4, false}},
		},
		storage: [][]diskGroup{
			{{dellBOSS240, 1}, {samsungNVMe1T, 6}},
			{{percVD480, 1}, {toshibaSAS600, 4}},
			{{intelSSD480, 2}, {samsungSSD1920, 4}},
		},
		accelerators: []PCIDevice{gpuA100, gpuT4}, bmcPercent: 96, biosPercent: 15,
	},
	{
		kind: Server, weight: 18, manufacturer: "HPE", architecture: "x86_64",
		firmwareVendor: "HPE",
		products: []product{
			{"ProLiant DL360 Gen10 (867959-B21)", []int{1, 2}, []cpuModel{xeon4210, xeon6230}, []release{{"U32", "03/14/2023"}}},
			{"ProLiant DL380 Gen10 Plus (P55246-B21)", []int{2}, []cpuModel{xeon6338, xeon8358}, []release{{"U46", "09/21/2022"}}},
			{"ProLiant DL325 Gen10 Plus v2 (P38477-B21)", []int{1}, []cpuModel{epyc7302, epyc7763}, []release{{"A43", "12/02/2022"}}},
			{"ProLiant DL360 Gen11 (P52534-B21)", []int{1, 2}, []cpuModel{xeon6430}, []release{{"U54", "08/17/2023"}}},
		},
		serial: "CZ2D####**", ouis: ouiHPE,
		memoryGiB: []int{128, 256, 512},
		nics: [][]nicGroup{
			{{intelI350, 4, true}},
			{{broadcom5720, 4, true}, {mellanoxCX6Lx, 2, false}},
			{{intelI350, 2, true}, {broadcom57414, 2, false}},
		},
		storage: [][]diskGroup{
			{{hpeLogical960, 1}, {seagateHDD12T, 8}},
			{{hpeLogical960, 2}},
			{{micronSSD960, 2}, {kioxiaNVMe7T, 4}},
		},
		accelerators: []PCIDevice{gpuL40S}, bmcPercent: 95, biosPercent: 10,
	},
	{
		kind: Server, weight: 15, manufacturer: "Supermicro", architecture: "x86_64",
		firmwareVendor: "American Megatrends Inc.",
		products: []product{
			{"SYS-1029P-WTRT (091715D9)", []int{2}, []cpuModel{xeon4210, xeon6230}, []release{{"3.4", "11/23/2020"}, {"3.8a", "10/28/2022"}}},
			{"SYS-6019P-MTR (To be filled by O.E.M.)", []int{2}, []cpuModel{xeon4210}, []release{{"3.8a", "10/28/2022"}}},
			{"AS -1114S-WN10RT (To be filled by O.E.M.)", []int{1}, []cpuModel{epyc7302, epyc7763}, []release{{"2.4", "12/30/2021"}}},
			{"SYS-221H-TNR (To be filled by O.E.M.)", []int{2}, []cpuModel{xeon6430}, []release{{"1.3", "03/20/2023"}}},
		},
		serial: "S######X####", ouis: ouiSupermicro,
		memoryGiB: []int{64, 128, 256, 768},
		nics: [][]nicGroup{
			{{intelX550, 2, true}},
			{{intelX722, 4, true}},
			{{broadcom57416, 2, true}, {mellanoxCX5, 2, false}},
		},
		storage: [][]diskGroup{
			{{micronSSD960, 2}, {samsungNVMe1T, 8}},
			{{intelSSD480, 2}, {seagateHDD4T, 8}},
			{{intelNVMe3T, 4}},
		},
		accelerators: []PCIDevice{gpuA100, gpuT4, fpgaU250}, bmcPercent: 94, biosPercent: 25,
	},
	{
		kind: Server, weight: 12, manufacturer: "Lenovo", architecture: "x86_64",
		firmwareVendor: "Lenovo",
		products: []product{
			{"ThinkSystem SR650 -[7X06CTO1WW]- (7X06CTO1WW)", []int{2}, []cpuModel{xeon4210, xeon6230}, []release{{"-[IVE178D-3.30]-", "09/24/2021"}}},
			{"ThinkSystem SR630 V2 (7Z71CTO1WW)", []int{2}, []cpuModel{xeon6338}, []release{{"-[AFE126I-2.10]-", "05/25/2023"}}},
			{"ThinkSystem SR645 V3 (7D9CCTO1WW)", []int{1, 2}, []cpuModel{epyc9354}, []release{{"KAE110K-2.20", "07/07/2023"}}},
		},
		serial: "J30#****", ouis: ouiLenovo,
		memoryGiB: []int{128, 384, 768},
		nics: [][]nicGroup{
			{{intelX722, 2, true}, {intelX710, 2, false}},
			{{broadcom5720, 4, true}},
			{{mellanoxCX6Lx, 2, true}, {mellanoxCX5, 2, false}},
		},
		storage: [][]diskGroup{
			{{micronSSD960, 2}, {seagateHDD12T, 4}},
			{{samsungNVMe512, 2}, {samsungNVMe1T, 4}},
		},
		accelerators: []PCIDevice{gpuT4}, bmcPercent: 97, biosPercent: 10,
	},
	{
		kind: Server, weight: 7, manufacturer: "FUJITSU", architecture: "x86_64",
		firmwareVendor: "FUJITSU // American Megatrends Inc.",
		products: []product{
			{"PRIMERGY RX2530 M5 (S26361-K1659-Vxxx)", []int{2}, []cpuModel{xeon6230}, []release{{"V5.0.0.14 R1.40.0 for D3383-A1x", "06/08/2023"}}},
			{"PRIMERGY RX2540 M6 (S26361-K1689-Vxxx)", []int{2}, []cpuModel{xeon6338}, []release{{"V1.0.0.0 R1.18.0 for D3899-B1x", "01/24/2023"}}},
		},
		serial: "YLQQ#######", ouis: ouiFujitsu,
		memoryGiB: []int{96, 192},
		nics: [][]nicGroup{
			{{intelX722, 2, true}, {intelI350, 4, false}},
			{{intelI350, 2, true}, {intelE810, 2, false}},
		},
		storage:    [][]diskGroup{{{samsungSSD1920, 2}, {toshibaSAS600, 6}}, {{intelSSD480, 2}}},
		bmcPercent: 92, biosPercent: 20,
	},
	{
		kind: Server, weight: 6, manufacturer: "GIGABYTE", architecture: "aarch64",
		firmwareVendor: "GIGABYTE",
		products: []product{
			{"R152-P30-00 (01234567890123456789AB)", []int{1}, []cpuModel{altraQ80}, []release{{"F28a (SCP: 2.10.20220531)", "09/14/2022"}}},
			{"R272-P30-JG (01234567890123456789AB)", []int{1}, []cpuModel{altraQ80}, []release{{"F17 (SCP: 1.07.20210713)", "11/01/2021"}, {"F28a (SCP: 2.10.20220531)", "09/14/2022"}}},
		},
		serial: "GJG4P##12A#####", ouis: ouiGigabyte,
		memoryGiB: []int{128, 256},
		nics: [][]nicGroup{
			{{intelI350, 2, true}, {mellanoxCX5, 2, false}},
			{{broadcom57414, 2, true}, {intelI210, 1, true}},
		},
		storage:    [][]diskGroup{{{samsungNVMe1T, 2}, {intelNVMe3T, 2}}, {{samsungNVMe512, 1}}},
		bmcPercent: 90, biosPercent: 0,
	},
	{
		kind: Server, weight: 3, manufacturer: "Supermicro", architecture: "aarch64",
		firmwareVendor: "American Megatrends International, LLC.",
		products: []product{
			{"ARS-111GL-NHR (To be filled by O.E.M.)", []int{1}, []cpuModel{grace}, []release{{"1.1", "01/31/2024"}}},
		},
		serial: "S######X####", ouis: ouiSupermicro,
		memoryGiB:    []int{480},
		nics:         [][]nicGroup{{{intelX550, 2, true}, {broadcom57508, 2, false}}},
		storage:      [][]diskGroup{{{kioxiaNVMe7T, 2}}},
		accelerators: []PCIDevice{gpuGH200}, bmcPercent: 100, biosPercent: 0,
	},
	{
		kind: Server, weight: 4, manufacturer: "Dell Inc.", architecture: "x86_64",
		firmwareVendor: "Dell Inc.",
		products: []product{
			{"PowerEdge XE9680 (SKU=0B8D;ModelName=PowerEdge XE9680)", []int{2}, []cpuModel{xeon8480}, []release{{"1.3.2", "09/08/2023"}, {"2.1.5", "03/14/2024"}}},
		},
		serial: "*******", ouis: ouiDell,
		memoryGiB:    []int{1024, 2048},
		nics:         [][]nicGroup{{{broadcom5720, 2, true}, {intelE810C, 2, false}, {mellanoxCX5, 4, false}}},
		storage:      [][]diskGroup{{{dellBOSS240, 1}, {kioxiaNVMe7T, 8}}},
		accelerators: []PCIDevice{gpuH100}, bmcPercent: 100, biosPercent: 0,
	},
}
