//! Money: what machines cost, who pays for what, and what nobody uses.

use super::panel::{GOOD, Panel, WATCH};
use super::{Dashboard, Variable};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        name: "cost",
        title: "carve / Cost",
        says: "What GPU machines cost, which of it was used, held, idle or lost, and for whom. Parts sum up to the price.",
        variables: vec![Variable {
            name: "node",
            label: "Node",
            values: "carve_node_price_known, node",
            many: true,
        }],
        rows: vec![
            ("Now", now()),
            ("Over time", over_time()),
            ("In this time", in_this_time()),
            ("Prices", prices()),
        ],
    }
}

fn now() -> Vec<Panel> {
    let by_kind = |kinds: &str| {
        format!(
            "sum(rate(carve_node_cost_dollars_total{{node=~\"$node\", kind=~\"{kinds}\"}}[$__rate_interval])) * 3600"
        )
    };
    vec![
        Panel::stat("Price", "Dollars an hour of all machines whose price is known.")
            .asks("sum(carve_node_price_dollars_per_hour{node=~\"$node\"})", "")
            .unit("currencyUSD"),
        Panel::stat("Used", "Dollars an hour for which GPUs did something.")
            .asks(by_kind("used"), "")
            .unit("currencyUSD"),
        Panel::stat("Held and idle", "Dollars an hour for what pods hold and do not use.")
            .asks(by_kind("idle-held"), "")
            .unit("currencyUSD"),
        Panel::stat("Nobody's", "Dollars an hour for what nobody holds, or nobody could be given.")
            .asks(by_kind("idle|fragmentation"), "")
            .unit("currencyUSD"),
        Panel::stat("Lost", "Dollars an hour for GPUs that are withheld or do not work.")
            .asks(by_kind("overhead"), "")
            .unit("currencyUSD"),
        Panel::stat("Without a price", "Nodes whose price nobody knows; they are in no sum.")
            .asks("count(carve_node_price_known{node=~\"$node\"} == 0) or vector(0)", "")
            .colours(GOOD, &[(1.0, WATCH)]),
    ]
}

fn over_time() -> Vec<Panel> {
    vec![
        Panel::stacked("Dollars an hour, by what became of it", "All kinds together are the price of the machines.")
            .asks("sum by (kind) (rate(carve_node_cost_dollars_total{node=~\"$node\"}[$__rate_interval])) * 3600", "{{kind}}")
            .unit("currencyUSD"),
        Panel::stacked("Dollars an hour, by namespace", "For what its pods hold, used or not.")
            .asks("sum by (namespace) (rate(carve_cost_dollars_total{node=~\"$node\"}[$__rate_interval])) * 3600", "{{namespace}}")
            .unit("currencyUSD"),
        Panel::lines("Idle, held and fragmentation", "What could be saved: give it back, make slices smaller, pack them better.")
            .asks("sum by (kind) (rate(carve_node_cost_dollars_total{node=~\"$node\", kind=~\"idle|idle-held|fragmentation|overhead\"}[$__rate_interval])) * 3600", "{{kind}}")
            .unit("currencyUSD"),
        Panel::lines("Sum and price", "The two lines are one: whatever is divided sums up.")
            .asks("sum(rate(carve_node_cost_dollars_total{node=~\"$node\"}[$__rate_interval])) * 3600", "sum of all kinds")
            .asks("sum(carve_node_price_dollars_per_hour{node=~\"$node\"})", "price")
            .unit("currencyUSD"),
    ]
}

fn in_this_time() -> Vec<Panel> {
    vec![
        Panel::table("Dollars, by namespace", "In the time that is shown, of pods that are there.")
            .asks("sum by (namespace, mechanism, kind) (increase(carve_cost_dollars_total{node=~\"$node\"}[$__range]))", "")
            .width(12)
            .unit("currencyUSD")
            .column("Value", "dollars"),
        Panel::table("Dollars, by node", "In the time that is shown.")
            .asks("sum by (node, kind) (increase(carve_node_cost_dollars_total{node=~\"$node\"}[$__range]))", "")
            .width(12)
            .unit("currencyUSD")
            .column("Value", "dollars"),
    ]
}

fn prices() -> Vec<Panel> {
    vec![
        Panel::table("Prices", "Of each node, and where the figure is from.")
            .asks(
                "max by (node, instance_type, source) (carve_node_price_dollars_per_hour{node=~\"$node\"})",
                "",
            )
            .unit("currencyUSD")
            .column("Value", "dollars an hour"),
    ]
}
