package hardware

// smallPlatforms are the machines outside of racks.
var smallPlatforms = []platform{
	{
		kind: Edge, weight: 4, manufacturer: "Advantech Co Ltd", architecture: "x86_64",
		firmwareVendor: "American Megatrends International, LLC.",
		products: []product{
			{"SKY-8101D (To be filled by O.E.M.)", []int{1}, []cpuModel{xeonD1736}, []release{{"5.19", "04/12/2022"}}},
			{"ECU-4784 (Default string)", []int{1}, []cpuModel{coreI5}, []release{{"V1.10", "10/06/2021"}}},
		},
		serial: "KSA#######", ouis: ouiAdvantech,
		memoryGiB:  []int{16, 32, 64},
		nics:       [][]nicGroup{{{intelI210, 4, true}}, {{intelI226, 2, true}, {intelX550, 2, true}}},
		storage:    [][]diskGroup{{{transcend256, 1}}, {{samsungNVMe512, 1}, {transcend256, 1}}},
		bmcPercent: 50, biosPercent: 20,
	},
	{
		kind: Edge, weight: 3, manufacturer: "Intel(R) Client Systems", architecture: "x86_64",
		firmwareVendor: "Intel Corp.",
		products: []product{
			{"NUC11TNHi5 (RNUC11TNHi50000)", []int{1}, []cpuModel{coreI5}, []release{{"TNTGL357.0064.2022.0217.1535", "02/17/2022"}}},
			{"NUC11ATBC4 (BNUC11ATBC4)", []int{1}, []cpuModel{atomN5105}, []release{{"ATJSLCPX.0037.2022.0715.1547", "07/15/2022"}}},
		},
		serial: "G6TN####00**", ouis: ouiElitegroup,
		memoryGiB:  []int{8, 16, 32},
		nics:       [][]nicGroup{{{intelI226, 1, true}}, {{intelI226, 2, true}}},
		storage:    [][]diskGroup{{{samsungNVMe512, 1}}},
		bmcPercent: 0, biosPercent: 0,
	},
	{
		// A board without the strings of a vendor: all machines report the same ones, which tests
		// how machines are told apart.
		kind: Edge, weight: 2, manufacturer: "To Be Filled By O.E.M.", architecture: "x86_64",
		firmwareVendor: "American Megatrends Inc.",
		products: []product{
			{"To Be Filled By O.E.M. (To Be Filled By O.E.M.)", []int{1}, []cpuModel{atomX6425}, []release{{"P1.40", "07/06/2021"}}},
		},
		serial: "To Be Filled By O.E.M.", ouis: ouiElitegroup,
		memoryGiB:  []int{4, 8},
		nics:       [][]nicGroup{{{realtekRTL8111, 2, true}}, {{realtekRTL8125, 1, true}}},
		storage:    [][]diskGroup{{{edgeEMMC64, 1}}, {{transcend256, 1}}},
		bmcPercent: 0, biosPercent: 50,
	},
	{
		kind: Virtual, weight: 3, manufacturer: "QEMU", architecture: "x86_64",
		firmwareVendor: "SeaBIOS",
		products: []product{
			{"Standard PC (Q35 + ICH9, 2009)", []int{1, 2}, []cpuModel{virtualX86, virtualEPYC}, []release{{"1.16.2-debian-1.16.2-1", "04/01/2014"}, {"rel-1.16.3-0-ga6ed6b70", "04/01/2014"}}},
			{"Standard PC (i440FX + PIIX, 1996)", []int{1}, []cpuModel{virtualX86}, []release{{"1.16.2-debian-1.16.2-1", "04/01/2014"}}},
		},
		serial: "", ouis: ouiQEMU,
		memoryGiB:  []int{4, 8, 16},
		nics:       [][]nicGroup{{{virtioNet, 1, true}}, {{virtioNet, 2, true}}},
		storage:    [][]diskGroup{{{virtioDisk40, 1}}, {{virtioDisk, 1}, {virtioDisk40, 1}}},
		bmcPercent: 0, biosPercent: 70,
	},
	{
		kind: Virtual, weight: 1, manufacturer: "VMware, Inc.", architecture: "x86_64",
		firmwareVendor: "VMware, Inc.",
		products: []product{
			{"VMware7,1", []int{1}, []cpuModel{xeon6338}, []release{{"VMW71.00V.21805430.B64.2305221830", "05/22/2023"}}},
		},
		serial: "VMware-42 %% %% %% %% %% %% 00-11 22 33 44 55 66 77 88", ouis: ouiVMware,
		memoryGiB:  []int{16, 32},
		nics:       [][]nicGroup{{{vmxnet3, 2, true}}},
		storage:    [][]diskGroup{{{vmwareDisk, 1}}},
		bmcPercent: 0, biosPercent: 30,
	},
}
