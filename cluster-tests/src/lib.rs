//! The vocabulary of the suites: a cluster, a namespace for each test, things applied and waited for.
//!
//! Suites need the lab (`cargo xtask lab up`); without one they say that they are skipped, and under `CI=true` they fail.
//! A wait that is in vain shows the events of its namespace and the last lines of every component.
#![allow(clippy::panic, reason = "a vocabulary for tests: the panic is the test's failure")]

mod asking;
mod background;
mod book;
mod chart;
mod cluster;
mod control_plane;
mod doors;
mod dra_audit;
mod dra_batch;
mod dra_claims;
mod dra_node;
mod dra_offer;
pub mod dra_packing;
mod gpu_node;
mod hollow_nodes;
mod incumbent;
mod inside;
mod karpenter;
mod kubelet_record;
mod limiter;
mod namespace;
mod node_features;
mod parts_churn;
mod parts_ledger;
mod parts_pods;
mod parts_watch;
mod pod;
mod previous;
mod prometheus;
mod relay;
pub mod soak;
mod taking;
mod tls_service;
mod turn;

pub use background::Background;
pub use book::{Reader, WITH_CLAIMS, WITH_PLUGIN};
pub use carve_conformance::{Incumbents, Program};
pub use chart::{Everything, FOLDERS, Release};
pub use cluster::{Cluster, PATIENCE};
pub use control_plane::{ControlPlane, PLAIN_SCHEDULER};
pub use dra_audit::{Audit, Holdings};
pub use dra_batch::{Batch, Unit, counted, tell_put_again};
pub use dra_claims::{Scenario, devices_given, documents, given_device, why_waiting};
pub use dra_node::{Ask, DRIVER, apply_classes, device_of};
pub use dra_offer::{DeviceOrder, Offered, class_objects, machine_layout, slice_objects, text_attribute};
pub use gpu_node::{AgentOnNode, GpuNode, stand_ins};
pub use hollow_nodes::HollowNodes;
pub use karpenter::{Advertised, Brought, KarpenterRun, Reported, define};
pub use kubelet_record::Record;
pub use limiter::limiter_library;
pub use namespace::Namespace;
pub use node_features::NodeFeatures;
pub use parts_churn::{Chance, Churn, Churned};
pub use parts_ledger::{Complaint, PartsLedger};
pub use parts_pods::{PartsAsk, part_asks, plain_name};
pub use parts_watch::PartsWatch;
pub use pod::Pod;
pub use previous::Previous;
pub use prometheus::{
    DashboardQuery, Prometheus, Scraped, dashboard_queries, hurried, promtool, shipped_rules,
};
pub use taking::{TAKING, import_taking};
pub use turn::alone;
