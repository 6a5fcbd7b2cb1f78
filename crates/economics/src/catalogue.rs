//! Prices and sizes of machines with NVIDIA GPUs, as the clouds list them: on demand, Linux, one region.
//!
//! Sources, with the day each list was made: AWS, us-east-1, 2026-07-20; Azure, eastus (H200: eastus2), 2026-06-18; Google,
//! us-central1, 2026-08-03. GPUs of the types of Azure and Google are from their names, not from a list. Prices differ
//! by region and contract: they serve comparisons, not invoices.

use crate::Rate;
use carve_gpu_model::{Mebibytes, Product};

/// Who rents the machine out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// Amazon.
    Aws,
    /// Microsoft.
    Azure,
    /// Google.
    Gcp,
}

/// Where a price comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceList {
    /// Who asks for it.
    pub provider: &'static str,
    /// Region.
    pub region: &'static str,
    /// The day of the list.
    pub date: &'static str,
}

impl Provider {
    /// The list its prices are from.
    pub const fn price_list(self) -> PriceList {
        let (provider, region, date) = match self {
            Provider::Aws => ("AWS", "us-east-1", "2026-07-20"),
            Provider::Azure => ("Azure", "eastus", "2026-06-18"),
            Provider::Gcp => ("Google Cloud", "us-central1", "2026-08-03"),
        };
        PriceList { provider, region, date }
    }
}

/// What a machine has beside its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory.
    pub memory: Mebibytes,
}

/// A type of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceType {
    /// As its cloud calls it.
    pub name: &'static str,
    /// Whose it is.
    pub provider: Provider,
    /// Key of its GPUs' product, where it is one that carve knows.
    pub product: Option<&'static str>,
    /// How many GPUs; 0 for a machine with a part of one.
    pub gpus: u8,
    /// CPU and memory, where they are known.
    pub host: Option<Host>,
    /// Price on demand, where there is one.
    pub price: Option<Rate>,
}

impl InstanceType {
    /// The type of this name.
    pub fn named(name: &str) -> Option<&'static InstanceType> {
        CATALOGUE.iter().find(|machine| machine.name == name)
    }

    /// Its GPUs, where carve knows the product.
    pub fn gpu(&self) -> Option<&'static Product> {
        self.product.and_then(Product::by_key)
    }
}

const fn row(
    name: &'static str,
    provider: Provider,
    product: Option<&'static str>,
    gpus: u8,
    host: Option<(u32, u64)>,
    micros: Option<u64>,
) -> InstanceType {
    let host = match host {
        Some((cpus, memory)) => Some(Host { cpus, memory: Mebibytes(memory) }),
        None => None,
    };
    let price = match micros {
        Some(micros) => Some(Rate::from_micros(micros)),
        None => None,
    };
    InstanceType { name, provider, product, gpus, host, price }
}

/// Name, provider, product, GPUs, (virtual CPUs, memory in MiB), millionths of a dollar an hour.
pub const CATALOGUE: &[InstanceType] = &[
    row("g3.4xlarge", Provider::Aws, None, 1, Some((16, 124_928)), Some(1_140_000)),
    row("g3.8xlarge", Provider::Aws, None, 2, Some((32, 249_856)), Some(2_280_000)),
    row("g3.16xlarge", Provider::Aws, None, 4, Some((64, 499_712)), Some(4_560_000)),
    row("g3s.xlarge", Provider::Aws, None, 1, Some((4, 31_232)), Some(750_000)),
    row("g4dn.xlarge", Provider::Aws, Some("t4"), 1, Some((4, 16_384)), Some(526_000)),
    row("g4dn.2xlarge", Provider::Aws, Some("t4"), 1, Some((8, 32_768)), Some(752_000)),
    row("g4dn.4xlarge", Provider::Aws, Some("t4"), 1, Some((16, 65_536)), Some(1_204_000)),
    row("g4dn.8xlarge", Provider::Aws, Some("t4"), 1, Some((32, 131_072)), Some(2_176_000)),
    row("g4dn.12xlarge", Provider::Aws, Some("t4"), 4, Some((48, 196_608)), Some(3_912_000)),
    row("g4dn.16xlarge", Provider::Aws, Some("t4"), 1, Some((64, 262_144)), Some(4_352_000)),
    row("g4dn.metal", Provider::Aws, Some("t4"), 8, Some((96, 393_216)), Some(7_824_000)),
    row("g5.xlarge", Provider::Aws, Some("a10g"), 1, Some((4, 16_384)), Some(1_006_000)),
    row("g5.2xlarge", Provider::Aws, Some("a10g"), 1, Some((8, 32_768)), Some(1_212_000)),
    row("g5.4xlarge", Provider::Aws, Some("a10g"), 1, Some((16, 65_536)), Some(1_624_000)),
    row("g5.8xlarge", Provider::Aws, Some("a10g"), 1, Some((32, 131_072)), Some(2_448_000)),
    row("g5.12xlarge", Provider::Aws, Some("a10g"), 4, Some((48, 196_608)), Some(5_672_000)),
    row("g5.16xlarge", Provider::Aws, Some("a10g"), 1, Some((64, 262_144)), Some(4_096_000)),
    row("g5.24xlarge", Provider::Aws, Some("a10g"), 4, Some((96, 393_216)), Some(8_144_000)),
    row("g5.48xlarge", Provider::Aws, Some("a10g"), 8, Some((192, 786_432)), Some(16_288_000)),
    row("g5g.xlarge", Provider::Aws, None, 1, Some((4, 8_192)), Some(420_000)),
    row("g5g.2xlarge", Provider::Aws, None, 1, Some((8, 16_384)), Some(556_000)),
    row("g5g.4xlarge", Provider::Aws, None, 1, Some((16, 32_768)), Some(828_000)),
    row("g5g.8xlarge", Provider::Aws, None, 1, Some((32, 65_536)), Some(1_372_000)),
    row("g5g.16xlarge", Provider::Aws, None, 2, Some((64, 131_072)), Some(2_744_000)),
    row("g5g.metal", Provider::Aws, None, 2, Some((64, 131_072)), Some(2_744_000)),
    row("g6.xlarge", Provider::Aws, Some("l4"), 1, Some((4, 16_384)), Some(804_800)),
    row("g6.2xlarge", Provider::Aws, Some("l4"), 1, Some((8, 32_768)), Some(977_600)),
    row("g6.4xlarge", Provider::Aws, Some("l4"), 1, Some((16, 65_536)), Some(1_323_200)),
    row("g6.8xlarge", Provider::Aws, Some("l4"), 1, Some((32, 131_072)), Some(2_014_400)),
    row("g6.12xlarge", Provider::Aws, Some("l4"), 4, Some((48, 196_608)), Some(4_601_600)),
    row("g6.16xlarge", Provider::Aws, Some("l4"), 1, Some((64, 262_144)), Some(3_396_800)),
    row("g6.24xlarge", Provider::Aws, Some("l4"), 4, Some((96, 393_216)), Some(6_675_200)),
    row("g6.48xlarge", Provider::Aws, Some("l4"), 8, Some((192, 786_432)), Some(13_350_400)),
    row("g6e.xlarge", Provider::Aws, Some("l40s"), 1, Some((4, 32_768)), Some(1_861_000)),
    row("g6e.2xlarge", Provider::Aws, Some("l40s"), 1, Some((8, 65_536)), Some(2_242_080)),
    row("g6e.4xlarge", Provider::Aws, Some("l40s"), 1, Some((16, 131_072)), Some(3_004_240)),
    row("g6e.8xlarge", Provider::Aws, Some("l40s"), 1, Some((32, 262_144)), Some(4_528_560)),
    row("g6e.12xlarge", Provider::Aws, Some("l40s"), 4, Some((48, 393_216)), Some(10_492_640)),
    row("g6e.16xlarge", Provider::Aws, Some("l40s"), 1, Some((64, 524_288)), Some(7_577_190)),
    row("g6e.24xlarge", Provider::Aws, Some("l40s"), 4, Some((96, 786_432)), Some(15_065_590)),
    row("g6e.48xlarge", Provider::Aws, Some("l40s"), 8, Some((192, 1_572_864)), Some(30_131_180)),
    row("g6f.large", Provider::Aws, None, 0, Some((2, 8_192)), Some(202_000)),
    row("g6f.xlarge", Provider::Aws, None, 0, Some((4, 16_384)), Some(237_500)),
    row("g6f.2xlarge", Provider::Aws, None, 0, Some((8, 32_768)), Some(475_000)),
    row("g6f.4xlarge", Provider::Aws, None, 0, Some((16, 65_536)), Some(950_000)),
    row("g7.2xlarge", Provider::Aws, None, 1, Some((8, 32_768)), Some(2_520_000)),
    row("g7.4xlarge", Provider::Aws, None, 1, Some((16, 65_536)), Some(3_042_080)),
    row("g7.8xlarge", Provider::Aws, None, 1, Some((32, 131_072)), Some(4_086_240)),
    row("g7.12xlarge", Provider::Aws, None, 2, Some((48, 196_608)), Some(7_128_320)),
    row("g7.24xlarge", Provider::Aws, None, 4, Some((96, 393_216)), Some(14_256_640)),
    row("g7.48xlarge", Provider::Aws, None, 8, Some((192, 786_432)), Some(28_513_280)),
    row("g7e.2xlarge", Provider::Aws, Some("rtx-pro-6000-96gb"), 1, Some((8, 65_536)), Some(3_363_120)),
    row("g7e.4xlarge", Provider::Aws, Some("rtx-pro-6000-96gb"), 1, Some((16, 131_072)), Some(3_998_160)),
    row("g7e.8xlarge", Provider::Aws, Some("rtx-pro-6000-96gb"), 1, Some((32, 262_144)), Some(5_268_240)),
    row("g7e.12xlarge", Provider::Aws, Some("rtx-pro-6000-96gb"), 2, Some((48, 524_288)), Some(8_286_080)),
    row("g7e.24xlarge", Provider::Aws, Some("rtx-pro-6000-96gb"), 4, Some((96, 1_048_576)), Some(16_572_160)),
    row(
        "g7e.48xlarge",
        Provider::Aws,
        Some("rtx-pro-6000-96gb"),
        8,
        Some((192, 2_097_152)),
        Some(33_144_320),
    ),
    row("gr6.4xlarge", Provider::Aws, Some("l4"), 1, Some((16, 131_072)), Some(1_539_200)),
    row("gr6.8xlarge", Provider::Aws, Some("l4"), 1, Some((32, 262_144)), Some(2_446_400)),
    row("gr6f.4xlarge", Provider::Aws, None, 0, Some((16, 131_072)), Some(1_066_000)),
    row("p2.xlarge", Provider::Aws, None, 1, Some((4, 62_464)), Some(900_000)),
    row("p2.8xlarge", Provider::Aws, None, 8, Some((32, 499_712)), Some(7_200_000)),
    row("p2.16xlarge", Provider::Aws, None, 16, Some((64, 749_568)), Some(14_400_000)),
    row("p3.2xlarge", Provider::Aws, Some("v100-sxm2-16gb"), 1, Some((8, 62_464)), Some(3_060_000)),
    row("p3.8xlarge", Provider::Aws, Some("v100-sxm2-16gb"), 4, Some((32, 249_856)), Some(12_240_000)),
    row("p3.16xlarge", Provider::Aws, Some("v100-sxm2-16gb"), 8, Some((64, 499_712)), Some(24_480_000)),
    row("p3dn.24xlarge", Provider::Aws, Some("v100-sxm2-32gb"), 8, Some((96, 786_432)), Some(31_212_000)),
    row("p4d.24xlarge", Provider::Aws, Some("a100-40gb"), 8, Some((96, 1_179_648)), Some(21_957_642)),
    row("p4de.24xlarge", Provider::Aws, Some("a100-80gb"), 8, Some((96, 1_179_648)), Some(27_447_050)),
    row("p5.4xlarge", Provider::Aws, Some("h100-sxm-80gb"), 1, Some((16, 262_144)), Some(6_880_000)),
    row("p5.48xlarge", Provider::Aws, Some("h100-sxm-80gb"), 8, Some((192, 2_097_152)), Some(55_040_000)),
    row("p5e.48xlarge", Provider::Aws, Some("h200-141gb"), 8, Some((192, 2_097_152)), None),
    row("p5en.48xlarge", Provider::Aws, Some("h200-141gb"), 8, Some((192, 2_097_152)), Some(63_296_000)),
    row("p6-b200.48xlarge", Provider::Aws, Some("b200-180gb"), 8, Some((192, 2_097_152)), Some(113_932_800)),
    row("p6-b300.48xlarge", Provider::Aws, Some("b300-269gb"), 8, Some((192, 4_194_304)), Some(142_416_000)),
    row("Standard_NC4as_T4_v3", Provider::Azure, Some("t4"), 1, None, Some(526_000)),
    row("Standard_NC8as_T4_v3", Provider::Azure, Some("t4"), 1, None, Some(752_000)),
    row("Standard_NC16as_T4_v3", Provider::Azure, Some("t4"), 1, None, Some(1_204_000)),
    row("Standard_NC64as_T4_v3", Provider::Azure, Some("t4"), 4, None, Some(4_352_000)),
    row("Standard_NC6s_v3", Provider::Azure, Some("v100-pcie-16gb"), 1, None, Some(3_060_000)),
    row("Standard_NC12s_v3", Provider::Azure, Some("v100-pcie-16gb"), 2, None, Some(6_120_000)),
    row("Standard_NC24s_v3", Provider::Azure, Some("v100-pcie-16gb"), 4, None, Some(12_240_000)),
    row("Standard_ND40rs_v2", Provider::Azure, Some("v100-sxm2-32gb"), 8, None, Some(22_032_000)),
    row("Standard_NC24ads_A100_v4", Provider::Azure, Some("a100-80gb"), 1, None, Some(3_673_000)),
    row("Standard_NC48ads_A100_v4", Provider::Azure, Some("a100-80gb"), 2, None, Some(7_346_000)),
    row("Standard_NC96ads_A100_v4", Provider::Azure, Some("a100-80gb"), 4, None, Some(14_692_000)),
    row("Standard_ND96asr_v4", Provider::Azure, Some("a100-40gb"), 8, None, Some(27_197_000)),
    row("Standard_ND96amsr_A100_v4", Provider::Azure, Some("a100-80gb"), 8, None, Some(32_770_000)),
    row("Standard_NC40ads_H100_v5", Provider::Azure, Some("h100-nvl-94gb"), 1, None, Some(6_980_000)),
    row("Standard_NC80adis_H100_v5", Provider::Azure, Some("h100-nvl-94gb"), 2, None, Some(13_960_000)),
    row("Standard_ND96isr_H100_v5", Provider::Azure, Some("h100-sxm-80gb"), 8, None, Some(98_320_000)),
    row("Standard_ND96isr_H200_v5", Provider::Azure, Some("h200-141gb"), 8, None, Some(84_800_000)),
    row("Standard_NV6ads_A10_v5", Provider::Azure, None, 0, None, Some(454_000)),
    row("Standard_NV12ads_A10_v5", Provider::Azure, None, 0, None, Some(908_000)),
    row("Standard_NV18ads_A10_v5", Provider::Azure, None, 0, None, Some(1_600_000)),
    row("Standard_NV36ads_A10_v5", Provider::Azure, Some("a10"), 1, None, Some(3_200_000)),
    row("Standard_NV36adms_A10_v5", Provider::Azure, Some("a10"), 1, None, Some(4_520_000)),
    row("Standard_NV72ads_A10_v5", Provider::Azure, Some("a10"), 2, None, Some(6_520_000)),
    row("a2-highgpu-1g", Provider::Gcp, Some("a100-40gb"), 1, None, Some(3_673_390)),
    row("a2-highgpu-2g", Provider::Gcp, Some("a100-40gb"), 2, None, Some(7_346_770)),
    row("a2-highgpu-4g", Provider::Gcp, Some("a100-40gb"), 4, None, Some(14_693_540)),
    row("a2-highgpu-8g", Provider::Gcp, Some("a100-40gb"), 8, None, Some(29_387_080)),
    row("a2-megagpu-16g", Provider::Gcp, Some("a100-40gb"), 16, None, Some(55_739_500)),
    row("a2-ultragpu-1g", Provider::Gcp, Some("a100-80gb"), 1, None, Some(5_068_800)),
    row("a2-ultragpu-2g", Provider::Gcp, Some("a100-80gb"), 2, None, Some(10_137_600)),
    row("a2-ultragpu-4g", Provider::Gcp, Some("a100-80gb"), 4, None, Some(20_275_190)),
    row("a2-ultragpu-8g", Provider::Gcp, Some("a100-80gb"), 8, None, Some(40_550_380)),
    row("a3-highgpu-1g", Provider::Gcp, Some("h100-sxm-80gb"), 1, None, Some(11_061_250)),
    row("a3-highgpu-2g", Provider::Gcp, Some("h100-sxm-80gb"), 2, None, Some(22_122_500)),
    row("a3-highgpu-4g", Provider::Gcp, Some("h100-sxm-80gb"), 4, None, Some(44_245_000)),
    row("a3-highgpu-8g", Provider::Gcp, Some("h100-sxm-80gb"), 8, None, Some(88_490_000)),
    row("g2-standard-12", Provider::Gcp, Some("l4"), 1, None, Some(1_000_420)),
    row("g2-standard-16", Provider::Gcp, Some("l4"), 1, None, Some(1_147_210)),
    row("g2-standard-24", Provider::Gcp, Some("l4"), 2, None, Some(2_000_830)),
    row("g2-standard-32", Provider::Gcp, Some("l4"), 1, None, Some(1_734_380)),
    row("g2-standard-4", Provider::Gcp, Some("l4"), 1, None, Some(706_830)),
    row("g2-standard-48", Provider::Gcp, Some("l4"), 4, None, Some(4_001_670)),
    row("g2-standard-8", Provider::Gcp, Some("l4"), 1, None, Some(853_620)),
    row("g2-standard-96", Provider::Gcp, Some("l4"), 8, None, Some(8_003_330)),
    row("g4-standard-12", Provider::Gcp, None, 0, None, Some(1_124_980)),
    row("g4-standard-192", Provider::Gcp, Some("rtx-pro-6000-96gb"), 4, None, Some(17_999_720)),
    row("g4-standard-24", Provider::Gcp, None, 0, None, Some(2_249_960)),
    row("g4-standard-384", Provider::Gcp, Some("rtx-pro-6000-96gb"), 8, None, Some(35_999_440)),
    row("g4-standard-48", Provider::Gcp, Some("rtx-pro-6000-96gb"), 1, None, Some(4_499_930)),
    row("g4-standard-6", Provider::Gcp, None, 0, None, Some(559_560)),
    row("g4-standard-96", Provider::Gcp, Some("rtx-pro-6000-96gb"), 2, None, Some(8_999_860)),
];
