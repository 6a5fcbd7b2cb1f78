//! A tenant: what pods of a namespace hold, use, are refused, and cost.

use super::panel::{GOOD, Panel, WATCH};
use super::{Dashboard, Variable};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        name: "tenant",
        title: "carve / Tenant",
        says: "Namespaces: what their pods hold and use of GPUs, what they are refused, and what it costs.",
        variables: vec![Variable {
            name: "namespace",
            label: "Namespace",
            values: "carve_container_memory_used_bytes, namespace",
            many: true,
        }],
        rows: vec![("Now", now()), ("Use", of_time_and_memory()), ("Limits", limits()), ("Cost", cost())],
    }
}

fn now() -> Vec<Panel> {
    vec![
        Panel::stat("GPUs kept busy", "GPU seconds a second.")
            .asks("sum(rate(carve_container_gpu_seconds_total{namespace=~\"$namespace\"}[$__rate_interval]))", ""),
        Panel::stat("Slices held", "Parts of GPUs that containers hold.")
            .asks("count(carve_container_memory_used_bytes{namespace=~\"$namespace\"})", ""),
        Panel::stat("Memory in use", "Of all its parts.")
            .asks("sum(carve_container_memory_used_bytes{namespace=~\"$namespace\"})", "")
            .unit("bytes"),
        Panel::stat("Pods waiting", "Pods that ask for GPUs and have no node.")
            .asks("sum(carve_controller_pods_waiting{namespace=~\"$namespace\"}) or vector(0)", "")
            .colours(GOOD, &[(1.0, WATCH)]),
        Panel::stat("Cost now", "Dollars an hour for what its pods hold.")
            .asks("sum(rate(carve_cost_dollars_total{namespace=~\"$namespace\"}[$__rate_interval])) * 3600", "")
            .unit("currencyUSD"),
        Panel::stat("Of that not used", "Dollars an hour for parts that are held and idle.")
            .asks("sum(rate(carve_cost_dollars_total{namespace=~\"$namespace\", kind=\"idle-held\"}[$__rate_interval])) * 3600", "")
            .unit("currencyUSD"),
    ]
}

fn of_time_and_memory() -> Vec<Panel> {
    vec![
        Panel::stacked("GPU time, by pod", "GPU seconds a second.")
            .asks("sum by (namespace, pod) (rate(carve_container_gpu_seconds_total{namespace=~\"$namespace\"}[$__rate_interval]))", "{{namespace}}/{{pod}}"),
        Panel::lines("Used of what was promised", "1 is all of the time that a pod was promised; more where it may use what others leave.")
            .asks("sum by (namespace, pod) (rate(carve_container_gpu_seconds_total{namespace=~\"$namespace\"}[$__rate_interval])) / sum by (namespace, pod) (carve_container_gpu_promised_ratio{namespace=~\"$namespace\"})", "{{namespace}}/{{pod}}")
            .unit("percentunit"),
        Panel::lines("Memory of what it can have", "1 is full: the next allocation is refused.")
            .asks("sum by (namespace, pod) (carve_container_memory_used_bytes{namespace=~\"$namespace\"}) / sum by (namespace, pod) (carve_container_memory_limit_bytes{namespace=~\"$namespace\"})", "{{namespace}}/{{pod}}")
            .unit("percentunit")
            .most(1.0),
        Panel::bars("GPU hours in this time", "By pod, of pods that are there.")
            .asks("sum by (namespace, pod) (increase(carve_container_gpu_seconds_total{namespace=~\"$namespace\"}[$__range])) / 3600", "{{namespace}}/{{pod}}")
            .unit("h"),
    ]
}

fn limits() -> Vec<Panel> {
    vec![
        Panel::lines("Kept from working", "Threads that wait for their turn.")
            .asks("sum by (namespace, pod) (rate(carve_container_throttled_seconds_total{namespace=~\"$namespace\"}[$__rate_interval]))", "{{namespace}}/{{pod}}"),
        Panel::lines("Memory refused", "How often, because of the limit.")
            .asks("sum by (namespace, pod) (increase(carve_container_denied_allocations_total{namespace=~\"$namespace\"}[$__rate_interval]))", "{{namespace}}/{{pod}}"),
    ]
}

fn cost() -> Vec<Panel> {
    vec![
        Panel::stacked("Dollars an hour, by workload", "What pods hold, used or not.")
            .asks("sum by (namespace, workload) (rate(carve_cost_dollars_total{namespace=~\"$namespace\"}[$__rate_interval])) * 3600", "{{namespace}}/{{workload}}")
            .unit("currencyUSD"),
        Panel::stacked("Dollars an hour, by what became of it", "Unmeasured is held by pods of which nobody can tell whether they used it.")
            .asks("sum by (kind) (rate(carve_cost_dollars_total{namespace=~\"$namespace\"}[$__rate_interval])) * 3600", "{{kind}}")
            .unit("currencyUSD"),
    ]
}
