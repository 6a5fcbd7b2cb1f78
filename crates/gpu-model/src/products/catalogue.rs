//! The flat list of products. Figures come from drivers' own output unless marked otherwise.

use super::ampere_profiles::{A30_24GB_PROFILES, A100_40GB_PROFILES, A100_80GB_PROFILES};
use super::blackwell_profiles::{
    B200_180GB_PROFILES, B300_269GB_PROFILES, GB200_186GB_PROFILES, GB300_278GB_PROFILES,
    RTX_PRO_6000_96GB_PROFILES,
};
use super::hopper_profiles::{
    GH200_96GB_PROFILES, GH200_144GB_PROFILES, H20_96GB_PROFILES, H100_NVL_94GB_PROFILES,
    H100_PCIE_80GB_PROFILES, H100_SXM_80GB_PROFILES, H200_141GB_PROFILES,
};
use super::rows::Row;
use super::{Architecture, Board, Mig, ModeSwitch, Product};
use crate::Evidence;

/// Every product carve knows, oldest first.
pub const CATALOGUE: &[Product] = &[
    plain("p100-16gb", Architecture::Pascal, (6, 0), &[board("Tesla P100-SXM2-16GB", &[0x15F9])], 16276, 56),
    plain(
        "v100-sxm2-16gb",
        Architecture::Volta,
        (7, 0),
        &[board("Tesla V100-SXM2-16GB", &[0x1DB1])],
        16384,
        80,
    ),
    plain(
        "v100-sxm2-32gb",
        Architecture::Volta,
        (7, 0),
        &[board("Tesla V100-SXM2-32GB", &[0x1DB5])],
        32768,
        80,
    ),
    plain(
        "v100-pcie-16gb",
        Architecture::Volta,
        (7, 0),
        &[board("Tesla V100-PCIE-16GB", &[0x1DB4])],
        16384,
        80,
    ),
    plain("t4", Architecture::Turing, (7, 5), &[board("Tesla T4", &[0x1EB8])], 15360, 40),
    plain("a10", Architecture::Ampere, (8, 6), &[board("NVIDIA A10", &[0x2236])], 23028, 72),
    plain("a10g", Architecture::Ampere, (8, 6), &[board("NVIDIA A10G", &[0x2237])], 23028, 80),
    plain("a40", Architecture::Ampere, (8, 6), &[board("NVIDIA A40", &[0x2235])], 46068, 84),
    plain("rtx-a6000", Architecture::Ampere, (8, 6), &[board("NVIDIA RTX A6000", &[0x2230])], 49140, 84),
    plain("l4", Architecture::AdaLovelace, (8, 9), &[board("NVIDIA L4", &[0x27B8])], 23034, 58),
    plain("l40", Architecture::AdaLovelace, (8, 9), &[board("NVIDIA L40", &[0x26B5])], 46068, 142),
    plain("l40s", Architecture::AdaLovelace, (8, 9), &[board("NVIDIA L40S", &[0x26B9])], 46068, 142),
    Product {
        key: "a30-24gb",
        architecture: Architecture::Ampere,
        compute_capability: (8, 0),
        boards: &[board("NVIDIA A30", &[0x20B7])],
        memory: Some((24576, Evidence::Logged)),
        multiprocessors: Some(56),
        mig: ampere(A30_24GB_PROFILES),
    },
    Product {
        key: "a100-40gb",
        architecture: Architecture::Ampere,
        compute_capability: (8, 0),
        boards: &[
            board("NVIDIA A100-SXM4-40GB", &[0x20B0]),
            board("NVIDIA A100-PCIE-40GB", &[0x20B1, 0x20F1]),
            board("NVIDIA A800-40GB", &[0x20F6, 0x20BD]),
        ],
        memory: Some((40960, Evidence::Logged)),
        multiprocessors: Some(108),
        mig: ampere(A100_40GB_PROFILES),
    },
    Product {
        key: "a100-80gb",
        architecture: Architecture::Ampere,
        compute_capability: (8, 0),
        boards: &[
            board("NVIDIA A100-SXM4-80GB", &[0x20B2]),
            board("NVIDIA A100 80GB PCIe", &[0x20B5]),
            board("NVIDIA A800-SXM4-80GB", &[0x20F3, 0x20F5]),
        ],
        memory: Some((81920, Evidence::Logged)),
        multiprocessors: Some(108),
        mig: ampere(A100_80GB_PROFILES),
    },
    Product {
        key: "h100-sxm-80gb",
        architecture: Architecture::Hopper,
        compute_capability: (9, 0),
        boards: &[board("NVIDIA H100 80GB HBM3", &[0x2330]), board("NVIDIA H800", &[0x2324])],
        memory: Some((81559, Evidence::Logged)),
        multiprocessors: Some(132),
        mig: logged(H100_SXM_80GB_PROFILES),
    },
    Product {
        key: "h100-pcie-80gb",
        architecture: Architecture::Hopper,
        compute_capability: (9, 0),
        boards: &[board("NVIDIA H100 PCIe", &[0x2331]), board("NVIDIA H800 PCIe", &[0x2322])],
        memory: Some((81559, Evidence::Logged)),
        multiprocessors: Some(114),
        mig: logged(H100_PCIE_80GB_PROFILES),
    },
    Product {
        key: "h100-nvl-94gb",
        architecture: Architecture::Hopper,
        compute_capability: (9, 0),
        boards: &[board("NVIDIA H100 NVL", &[0x2321, 0x2339]), board("NVIDIA H800 NVL", &[0x233A])],
        memory: Some((95830, Evidence::Logged)),
        multiprocessors: Some(132),
        mig: logged(H100_NVL_94GB_PROFILES),
    },
    Product {
        key: "gh200-96gb",
        architecture: Architecture::Hopper,
        compute_capability: (9, 0),
        boards: &[board("NVIDIA GH200 480GB", &[0x2342]), board("NVIDIA H100 SXM5 96GB", &[0x233D, 0x2338])],
        memory: Some((97871, Evidence::Logged)),
        multiprocessors: Some(132),
        mig: logged(GH200_96GB_PROFILES),
    },
    Product {
        key: "gh200-144gb",
        architecture: Architecture::Hopper,
        compute_capability: (9, 0),
        boards: &[board("NVIDIA GH200 144G HBM3e", &[0x2348])],
        // The driver's total has not been seen; this one gives the names that have.
        memory: Some((147_456, Evidence::Assumed)),
        multiprocessors: Some(132),
        mig: placements_assumed(GH200_144GB_PROFILES, Evidence::Logged),
    },
    Product {
        key: "h200-141gb",
        architecture: Architecture::Hopper,
        compute_capability: (9, 0),
        boards: &[board("NVIDIA H200", &[0x2335]), board("NVIDIA H200 NVL", &[0x233B])],
        memory: Some((143_771, Evidence::Measured)),
        multiprocessors: Some(132),
        mig: Mig::Table {
            rows: H200_141GB_PROFILES,
            figures: Evidence::Measured,
            placements: Evidence::Measured,
            switch: ModeSwitch::Immediate,
        },
    },
    Product {
        key: "h20-96gb",
        architecture: Architecture::Hopper,
        compute_capability: (9, 0),
        boards: &[board("NVIDIA H20", &[0x2329])],
        memory: Some((97871, Evidence::Logged)),
        multiprocessors: Some(78),
        mig: placements_assumed(H20_96GB_PROFILES, Evidence::Documented),
    },
    Product {
        key: "b200-180gb",
        architecture: Architecture::Blackwell,
        compute_capability: (10, 0),
        boards: &[board("NVIDIA B200", &[0x2901])],
        memory: Some((183_359, Evidence::Logged)),
        multiprocessors: Some(148),
        mig: placements_assumed(B200_180GB_PROFILES, Evidence::Logged),
    },
    Product {
        key: "gb200-186gb",
        architecture: Architecture::Blackwell,
        compute_capability: (10, 0),
        boards: &[board("NVIDIA GB200", &[0x2941])],
        memory: Some((189_471, Evidence::Logged)),
        multiprocessors: None,
        mig: placements_assumed(GB200_186GB_PROFILES, Evidence::Logged),
    },
    Product {
        key: "b300-269gb",
        architecture: Architecture::Blackwell,
        compute_capability: (10, 3),
        boards: &[board("NVIDIA B300 SXM6 AC", &[0x3182])],
        memory: Some((275_040, Evidence::Logged)),
        multiprocessors: None,
        mig: placements_assumed(B300_269GB_PROFILES, Evidence::Documented),
    },
    Product {
        key: "gb300-278gb",
        architecture: Architecture::Blackwell,
        compute_capability: (10, 3),
        boards: &[board("NVIDIA GB300", &[0x31C2, 0x31C3, 0x31A1])],
        memory: Some((284_208, Evidence::Logged)),
        multiprocessors: None,
        mig: placements_assumed(GB300_278GB_PROFILES, Evidence::Documented),
    },
    Product {
        key: "rtx-pro-6000-96gb",
        architecture: Architecture::Blackwell,
        compute_capability: (12, 0),
        boards: &[
            board("NVIDIA RTX PRO 6000 Blackwell Server Edition", &[0x2BB5]),
            board("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", &[0x2BB1]),
            board("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", &[0x2BB4]),
        ],
        memory: Some((97887, Evidence::Logged)),
        multiprocessors: Some(188),
        mig: logged(RTX_PRO_6000_96GB_PROFILES),
    },
    Product {
        key: "rtx-pro-5000-48gb",
        architecture: Architecture::Blackwell,
        compute_capability: (12, 0),
        boards: &[board("NVIDIA RTX PRO 5000 Blackwell", &[])],
        memory: None,
        multiprocessors: None,
        // Two editions of NVIDIA's guide print two different tables for this board, by driver branch.
        mig: Mig::OnlyTheDriverKnows {
            names: &[
                "1g.12gb",
                "1g.12gb+me",
                "1g.12gb+gfx",
                "1g.12gb-me",
                "2g.24gb-me",
                "4g.48gb",
                "4g.48gb+gfx",
                "1g.24gb",
                "1g.24gb+me",
                "1g.24gb+gfx",
                "1g.24gb+me.all",
                "1g.24gb-me",
                "2g.48gb",
                "2g.48gb+gfx",
            ],
        },
    },
    Product {
        key: "rtx-pro-4500-32gb",
        architecture: Architecture::Blackwell,
        compute_capability: (12, 0),
        boards: &[board("NVIDIA RTX PRO 4500 Blackwell", &[])],
        memory: None,
        multiprocessors: None,
        mig: Mig::OnlyTheDriverKnows {
            names: &["1g.16gb", "1g.16gb+gfx", "1g.16gb+me.all", "1g.16gb-me", "2g.32gb", "2g.32gb+gfx"],
        },
    },
    Product {
        key: "thor-igpu",
        architecture: Architecture::Blackwell,
        compute_capability: (11, 0),
        boards: &[board("NVIDIA Thor", &[])],
        memory: None,
        multiprocessors: None,
        mig: Mig::OnlyTheDriverKnows {
            names: &["1g.0gb", "1g.0gb+me", "1g.0gb+gfx", "2g.0gb", "2g.0gb+gfx", "3g.0gb", "3g.0gb+gfx"],
        },
    },
];

const fn board(name: &'static str, pci_devices: &'static [u16]) -> Board {
    Board { name, pci_devices }
}

/// A product without MIG.
const fn plain(
    key: &'static str,
    architecture: Architecture,
    compute_capability: (u8, u8),
    boards: &'static [Board],
    mebibytes: u64,
    multiprocessors: u16,
) -> Product {
    Product {
        key,
        architecture,
        compute_capability,
        boards,
        memory: Some((mebibytes, Evidence::Logged)),
        multiprocessors: Some(multiprocessors),
        mig: Mig::None,
    }
}

const fn ampere(rows: &'static [Row]) -> Mig {
    Mig::Table {
        rows,
        figures: Evidence::Logged,
        placements: Evidence::Logged,
        switch: ModeSwitch::NeedsReset,
    }
}

const fn logged(rows: &'static [Row]) -> Mig {
    Mig::Table {
        rows,
        figures: Evidence::Logged,
        placements: Evidence::Logged,
        switch: ModeSwitch::Immediate,
    }
}

/// Names, ids and counts were seen for these; where instances may sit was not.
const fn placements_assumed(rows: &'static [Row], figures: Evidence) -> Mig {
    Mig::Table { rows, figures, placements: Evidence::Assumed, switch: ModeSwitch::Immediate }
}
