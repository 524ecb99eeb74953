package hardware

import (
	"slices"
	"strings"
)

// cpuModel is a processor model as the kernel reports it.
type cpuModel struct {
	name    string
	threads int    // logical processors per socket
	mhz     string // highest clock, empty when the kernel does not know it
	flags   []string
}

var (
	xeon4210    = cpuModel{"Intel(R) Xeon(R) Silver 4210 CPU @ 2.20GHz", 20, "3200.0000", flagsSkylake}
	xeon6230    = cpuModel{"Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", 40, "3900.0000", flagsSkylake}
	xeon6338    = cpuModel{"Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", 64, "3200.0000", flagsIceLake}
	xeon8358    = cpuModel{"Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz", 64, "3400.0000", flagsIceLake}
	xeon6430    = cpuModel{"Intel(R) Xeon(R) Gold 6430", 64, "3400.0000", flagsSapphire}
	xeon8480    = cpuModel{"Intel(R) Xeon(R) Platinum 8480+", 112, "3800.0000", flagsSapphire}
	xeonD1736   = cpuModel{"Intel(R) Xeon(R) D-1736NT CPU @ 2.70GHz", 16, "3500.0000", flagsIceLake}
	coreI5      = cpuModel{"Intel(R) Core(TM) i5-1145G7E @ 2.60GHz", 8, "4100.0000", flagsTiger}
	atomN5105   = cpuModel{"Intel(R) Celeron(R) N5105 @ 2.00GHz", 4, "2900.0000", flagsAtom}
	atomX6425   = cpuModel{"Intel Atom(R) x6425E Processor @ 2.00GHz", 4, "3000.0000", flagsAtom}
	epyc7302    = cpuModel{"AMD EPYC 7302 16-Core Processor", 32, "3000.0000", flagsRome}
	epyc7763    = cpuModel{"AMD EPYC 7763 64-Core Processor", 128, "3529.0520", flagsMilan}
	epyc9354    = cpuModel{"AMD EPYC 9354 32-Core Processor", 64, "3799.0720", flagsGenoa}
	altraQ80    = cpuModel{"Neoverse-N1", 80, "3000.0000", flagsNeoverse}
	grace       = cpuModel{"Neoverse-V2", 72, "3447.0000", flagsGrace}
	virtualX86  = cpuModel{"QEMU Virtual CPU version 2.5+", 4, "", flagsVirtual}
	virtualEPYC = cpuModel{"AMD EPYC", 8, "", flagsVirtualHost}
)

// words splits lists such as the flags of /proc/cpuinfo below into words.
func words(rows ...string) []string { return strings.Fields(strings.Join(rows, " ")) }

const (
	flagsBaseX86 = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht " +
		"syscall nx pdpe1gb rdtscp lm constant_tsc rep_good nopl nonstop_tsc cpuid aperfmperf pni pclmulqdq monitor ssse3 fma " +
		"cx16 sse4_1 sse4_2 x2apic movbe popcnt aes xsave avx f16c rdrand lahf_lm abm 3dnowprefetch fsgsbase bmi1 avx2 smep " +
		"bmi2 erms rdseed adx smap clflushopt xsaveopt xsavec xgetbv1 arat"
	flagsBaseIntel = "dts acpi ss tm pbe art arch_perfmon pebs bts xtopology dtes64 ds_cpl vmx smx est tm2 sdbg xtpr pdcm pcid " +
		"dca tsc_deadline_timer cpuid_fault epb ssbd ibrs ibpb stibp ibrs_enhanced tpr_shadow flexpriority ept vpid ept_ad " +
		"tsc_adjust invpcid rdt_a intel_pt xsaves dtherm ida pln pts md_clear flush_l1d arch_capabilities"
	flagsAVX512  = "avx512f avx512dq avx512cd avx512bw avx512vl clwb cqm cqm_llc cqm_occup_llc mba cat_l3 cdp_l3 pku ospke avx512_vnni"
	flagsBaseAMD = "mmxext fxsr_opt extd_apicid svm extapic cr8_legacy sse4a misalignsse osvw ibs skinit wdt tce topoext " +
		"perfctr_core perfctr_nb bpext perfctr_llc mwaitx cpb cat_l3 cdp_l3 hw_pstate ssbd mba ibrs ibpb stibp vmmcall cqm rdt_a " +
		"clwb sha_ni cqm_llc clzero irperf xsaveerptr rdpru wbnoinvd npt lbrv svm_lock nrip_save tsc_scale vmcb_clean " +
		"flushbyasid decodeassists pausefilter pfthreshold avic v_vmsave_vmload vgif umip rdpid overflow_recov succor smca"
	flagsArm = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
)

var (
	flagsSkylake     = words(flagsBaseX86, flagsBaseIntel, flagsAVX512, "mpx hle rtm")
	flagsIceLake     = words(flagsBaseX86, flagsBaseIntel, flagsAVX512, "avx512ifma sha_ni avx512vbmi umip avx512_vbmi2 gfni vaes vpclmulqdq avx512_bitalg tme avx512_vpopcntdq la57 rdpid fsrm")
	flagsSapphire    = words(flagsBaseX86, flagsBaseIntel, flagsAVX512, "sha_ni avx_vnni avx512_bf16 avx512vbmi umip avx512_vbmi2 gfni vaes vpclmulqdq la57 rdpid fsrm serialize tsxldtrk amx_bf16 avx512_fp16 amx_tile amx_int8")
	flagsTiger       = words(flagsBaseX86, flagsBaseIntel, "avx512f avx512dq avx512cd avx512bw avx512vl sha_ni split_lock_detect gfni vaes vpclmulqdq rdpid movdiri movdir64b fsrm")
	flagsAtom        = words("fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ss ht syscall nx pdpe1gb rdtscp lm constant_tsc pni pclmulqdq monitor ds_cpl vmx est tm2 ssse3 cx16 sse4_1 sse4_2 x2apic movbe popcnt tsc_deadline_timer aes xsave rdrand lahf_lm 3dnowprefetch tpr_shadow ept vpid smep erms sha_ni umip gfni rdpid")
	flagsRome        = words(flagsBaseX86, flagsBaseAMD)
	flagsMilan       = words(flagsBaseX86, flagsBaseAMD, "invpcid pku ospke vaes vpclmulqdq pcid")
	flagsGenoa       = words(flagsBaseX86, flagsBaseAMD, "invpcid pku ospke vaes vpclmulqdq pcid avx512f avx512dq avx512ifma avx512cd avx512bw avx512vl avx512_bf16 avx512vbmi gfni avx512_vnni la57")
	flagsNeoverse    = words(flagsArm, "ssbs")
	flagsGrace       = words(flagsArm, "jscvt fcma sm3 sm4 sha3 sha512 sve asimdfhm dit uscat ilrcpc flagm sb paca pacg dcpodp sve2 sveaes svepmull svebitperm svesha3 svesm4 flagm2 frint svei8mm svebf16 i8mm bf16 dgh bti")
	flagsVirtual     = words("fpu de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht syscall nx lm rep_good nopl xtopology cpuid tsc_known_freq pni cx16 x2apic popcnt hypervisor lahf_lm svm 3dnowprefetch vmmcall")
	flagsVirtualHost = slices.Concat(flagsVirtual, words("ssse3 fma sse4_1 sse4_2 aes xsave avx f16c rdrand bmi1 avx2 bmi2 sha_ni"))
)

// cpu returns the processors of a machine of this product.
func (p *product) cpu(rnd *random, architecture string) CPU {
	m := pick(rnd, p.cpus)
	sockets := pick(rnd, p.sockets)
	c := CPU{
		ModelName:    m.name,
		Count:        m.threads * sockets,
		Architecture: architecture,
		Flags:        m.flags,
		SocketCount:  sockets,
	}
	if m.mhz != "" {
		c.Frequency = ref(m.mhz)
	}
	return c
}

// memory returns the memory of a machine. The kernel uses about 1.5 % of the installed
// memory itself.
func (p *platform) memory(rnd *random) Memory {
	gib := int64(pick(rnd, p.memoryGiB))
	installed := gib << 30
	return Memory{Total: (installed - installed/64) &^ 0xfff, PhysicalMB: int(gib << 10)}
}
