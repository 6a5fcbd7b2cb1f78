//! The fleet: what there is, who has it, what is wasted, what happens.

use super::Dashboard;
use super::panel::{BAD, GOOD, Panel, WATCH};

/// Devices, GPUs and MIG instances, that somebody holds and that did next to nothing.
const HELD_IDLE: &str = "count(count by (node, uuid) (carve_container_memory_used_bytes) and on (node, uuid) \
     sum by (node, uuid) (rate(carve_gpu_busy_seconds_total[$__rate_interval])) < 0.01) or vector(0)";
const NOBODYS: &str = "count(carve_gpu_busy_seconds_total unless on (node, uuid) carve_container_memory_used_bytes) or vector(0)";

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        name: "fleet",
        title: "carve / Fleet",
        says: "All GPUs of the cluster: what there is, who has it, what is wasted and what happens.",
        variables: Vec::new(),
        rows: vec![
            ("What there is", what_there_is()),
            ("Who has it", who_has_it()),
            ("What is wasted", what_is_wasted()),
            ("What happens", what_happens()),
        ],
    }
}

fn what_there_is() -> Vec<Panel> {
    vec![
        Panel::stat("GPUs", "GPUs of all nodes whose agent answers.").asks("count(carve_agent_gpu_healthy)", ""),
        Panel::stat("Withheld", "GPUs that are sick, so that nothing is given out of them.")
            .asks("count(carve_agent_gpu_healthy == 0) or vector(0)", "")
            .colours(GOOD, &[(1.0, BAD)]),
        Panel::stat("GPUs with tenants", "GPUs of which at least one container has a part.")
            .asks("count(group by (Hostname, UUID) (DCGM_FI_DEV_FB_USED{pod!=\"\"})) or vector(0)", ""),
        Panel::stat("Slices given out", "Parts of GPUs, whole ones included, that containers hold now.")
            .asks("count(carve_container_memory_used_bytes) or vector(0)", ""),
        Panel::stat("Busy", "Mean over all GPUs and MIG instances of the part of the time in which they did anything.")
            .asks("avg(rate(carve_gpu_busy_seconds_total[$__rate_interval]))", "")
            .unit("percentunit")
            .most(1.0),
        Panel::stat("Pods waiting", "Pods that ask for GPUs in any way and have no node.")
            .asks("sum(carve_controller_pods_waiting) or vector(0)", "")
            .colours(GOOD, &[(1.0, WATCH), (20.0, BAD)]),
        Panel::bars("Offered to kubelet", "Devices that device plugins offer, by resource and health. What claims can have is not counted in devices.")
            .asks("sum by (resource, health) (carve_agent_devices)", "{{resource}} {{health}}"),
        Panel::lines("Memory", "GPU memory there is, and in use.")
            .asks("sum(carve_gpu_memory_bytes)", "there is")
            .asks("sum(carve_gpu_memory_used_bytes)", "in use")
            .unit("bytes"),
    ]
}

fn who_has_it() -> Vec<Panel> {
    vec![
        Panel::stacked("Slices given out", "By what keeps tenants apart.")
            .asks("count by (mechanism) (carve_container_memory_used_bytes)", "{{mechanism}}"),
        Panel::stacked(
            "GPUs kept busy, by namespace",
            "GPU seconds a second: 2 is as much as two whole GPUs all the time.",
        )
        .asks(
            "sum by (namespace) (rate(carve_container_gpu_seconds_total[$__rate_interval]))",
            "{{namespace}}",
        ),
    ]
}

fn what_is_wasted() -> Vec<Panel> {
    vec![
        Panel::stat("Held and idle", "GPUs and MIG instances that somebody holds and that did next to nothing.")
            .asks(HELD_IDLE, "")
            .width(6)
            .colours(GOOD, &[(1.0, WATCH)]),
        Panel::stat("Nobody's", "GPUs and MIG instances of which nobody has a part.").asks(NOBODYS, "").width(6),
        Panel::stat("Time for nobody known", "GPU seconds a second of processes that belong to no container.")
            .asks("sum(rate(carve_gpu_unattributed_seconds_total[$__rate_interval]))", "")
            .width(6)
            .colours(GOOD, &[(0.05, WATCH)]),
        Panel::stat("Escaped", "Processes on GPUs with fractions that no share counts.")
            .asks("sum(carve_agent_escaped_processes) or vector(0)", "")
            .width(6)
            .colours(GOOD, &[(1.0, BAD)]),
        Panel::lines("Held and idle, and nobody's", "GPUs and MIG instances over time.")
            .asks(HELD_IDLE, "held and idle")
            .asks(NOBODYS, "nobody's"),
        Panel::lines("Kept from working", "Threads that wait for their turn, by namespace; more than nothing on idle GPUs means shares that are too small.")
            .asks("sum by (namespace) (rate(carve_container_throttled_seconds_total[$__rate_interval]))", "{{namespace}}"),
    ]
}

fn what_happens() -> Vec<Panel> {
    vec![
        Panel::table("Alerts", "What fires now; docs/operations/alerts.md says what to do.")
            .asks("count by (alertname, severity) (ALERTS{alertname=~\"Carve.*\", alertstate=\"firing\"})", "")
            .width(12)
            .column("Value", "how many"),
        Panel::lines("Pods waiting", "By namespace and by the way in which they ask.")
            .asks("sum by (namespace, road) (carve_controller_pods_waiting)", "{{namespace}} ({{road}})"),
        Panel::lines("Oldest that waits", "How long the oldest pod of each namespace has had no node.")
            .asks("max by (namespace) (carve_controller_pods_waiting_oldest_seconds)", "{{namespace}}")
            .unit("s"),
        Panel::lines("MIG cut anew", "Layouts that agents were asked for, by label or by the controller, and what came of them.")
            .asks("sum by (result) (increase(carve_agent_mig_applies_total[$__rate_interval]))", "agents: {{result}}")
            .asks("sum by (outcome) (increase(carve_controller_cuts_total[$__rate_interval]))", "plans: {{outcome}}"),
        Panel::lines("XIDs", "Errors that drivers reported in the last hour.")
            .asks("sum by (node, xid, class) (increase(carve_agent_xid_events_total[1h]))", "{{node}}: XID {{xid}} ({{class}})"),
        Panel::lines("Decisions about pods", "Time that the scheduler waits for carve, for one pod.")
            .asks("histogram_quantile(0.5, sum by (le) (rate(carve_controller_extender_decision_seconds_bucket[$__rate_interval])))", "median")
            .asks("histogram_quantile(0.99, sum by (le) (rate(carve_controller_extender_decision_seconds_bucket[$__rate_interval])))", "99th percentile")
            .unit("s"),
    ]
}
