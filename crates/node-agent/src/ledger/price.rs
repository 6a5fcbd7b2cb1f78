//! What this machine costs: as a file of the operator's says, else as Karpenter says, else as its cloud's price list did.

use super::keeper::Priced;
use crate::usage::MachineFacts;
use carve_economics::{Price, Prices, Rate};
use carve_formats::prometheus;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Karpenter's series about what machines cost.
const SERIES: &str = "karpenter_cloudprovider_instance_type_offering_price_estimate";
/// How often Karpenter is asked; prices of spot machines change a few times a day.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(600);
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Its page has a line for every type, zone and way of paying.
const LONGEST_PAGE: u64 = 64 << 20;

/// Where prices come from.
#[derive(Debug, Default)]
pub(super) struct Pricing {
    file: Option<PathBuf>,
    /// The file as it was when it was last understood, and when it was changed.
    written: Prices,
    changed: Option<SystemTime>,
    karpenter: Option<(MachineFacts, Price)>,
}

impl Pricing {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        Pricing { file, ..Pricing::default() }
    }

    /// Reads the operator's file if it has changed. One that is not understood changes nothing.
    pub(super) fn look_at_file(&mut self) {
        let Some(file) = &self.file else { return };
        let changed = std::fs::metadata(file).and_then(|file| file.modified()).ok();
        if changed == self.changed && changed.is_some() {
            return;
        }
        let first = self.changed.is_none();
        self.changed = changed;
        let source = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let read = std::fs::read_to_string(file).map_err(|error| error.to_string());
        match read.and_then(|text| Prices::read(&text, &source).map_err(|error| error.to_string())) {
            Ok(prices) => self.written = prices,
            Err(why) if changed.is_some() || first => {
                tracing::warn!(file = %file.display(), why, "prices can not be read; those from before count");
                // So that a file that is not there is told of once.
                self.changed = changed.or(Some(SystemTime::UNIX_EPOCH));
            }
            Err(_) => {}
        }
    }

    /// Karpenter has said what such a machine costs, or does not know it.
    pub(super) fn learn_karpenter(&mut self, machine: MachineFacts, price: Option<Price>) {
        self.karpenter = price.map(|price| (machine, price));
    }

    /// What a machine costs. In the file it is found by its type, by its own name, or as `*`.
    pub(super) fn of(&self, machine: &MachineFacts) -> Priced {
        let written = [&machine.instance_type, &machine.node, "*"]
            .into_iter()
            .find_map(|name| self.written.written(name));
        let karpenter =
            || self.karpenter.as_ref().filter(|(of, _)| of == machine).map(|(_, price)| price.clone());
        let price = written.or_else(karpenter).or_else(|| self.written.of(&machine.instance_type));
        Priced { instance_type: machine.instance_type.clone(), price }
    }
}

/// Finds a machine on Karpenter's page.
fn on_page(text: &str, machine: &MachineFacts) -> Result<Option<Price>, String> {
    // The page is long, and one series of it is wanted.
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(SERIES)).collect();
    let found = prometheus::parse(&lines.join("\n")).map_err(|error| error.to_string())?;
    let capacity = if machine.capacity_type.is_empty() { "on-demand" } else { &machine.capacity_type };
    let is = |series: &&prometheus::Series, label: &str, value: &str| {
        series.labels.get(label).is_some_and(|found| found == value)
    };
    let offered = found.iter().filter(|series| {
        is(series, "instance_type", &machine.instance_type)
            && is(series, "capacity_type", capacity)
            && (machine.zone.is_empty() || is(series, "zone", &machine.zone))
    });
    let dollars = offered.filter_map(|series| series.points.last()).map(|point| point.value);
    let price = dollars.filter(|dollars| *dollars > 0.0 && *dollars < 1e6).reduce(f64::min);
    let place = if machine.zone.is_empty() { String::new() } else { format!(" {}", machine.zone) };
    Ok(price.map(|dollars| Price {
        per_hour: Rate::from_micros((dollars * 1e6).round() as u64),
        source: format!("Karpenter, {capacity}{place}"),
    }))
}

/// Asks Karpenter; blocks.
pub(super) fn ask_karpenter(url: &str, machine: &MachineFacts) -> Result<Option<Price>, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
    let mut answer = agent.get(url).call().map_err(|error| error.to_string())?;
    let text = answer
        .body_mut()
        .with_config()
        .limit(LONGEST_PAGE)
        .read_to_string()
        .map_err(|error| error.to_string())?;
    on_page(&text, machine)
}

#[cfg(test)]
mod tests {
    use super::{Pricing, on_page};
    use crate::usage::MachineFacts;

    fn machine(kind: &str, capacity_type: &str, zone: &str) -> MachineFacts {
        MachineFacts {
            node: "node-1".to_owned(),
            instance_type: kind.to_owned(),
            capacity_type: capacity_type.to_owned(),
            zone: zone.to_owned(),
        }
    }

    const PAGE: &str = r#"# HELP karpenter_cloudprovider_instance_type_offering_price_estimate Price
karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="on-demand",instance_type="g5.xlarge",zone="us-east-1a"} 1.006
karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="spot",instance_type="g5.xlarge",zone="us-east-1a"} 0.4512
karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="spot",instance_type="g5.xlarge",zone="us-east-1b"} 0.44
karpenter_nodes_total 5
"#;

    #[test]
    fn karpenter_knows_what_a_spot_machine_costs_here() {
        let told = |machine: &MachineFacts| {
            let price = on_page(PAGE, machine).expect("a page");
            price.map(|price| (price.per_hour.to_string(), price.source))
        };
        let of = |price: &str, source: &str| Some((price.to_owned(), source.to_owned()));
        assert_eq!(
            told(&machine("g5.xlarge", "spot", "us-east-1a")),
            of("$0.4512", "Karpenter, spot us-east-1a")
        );
        assert_eq!(told(&machine("g5.xlarge", "spot", "")), of("$0.44", "Karpenter, spot"));
        assert_eq!(
            told(&machine("g5.xlarge", "", "us-east-1a")),
            of("$1.006", "Karpenter, on-demand us-east-1a")
        );
        assert_eq!(told(&machine("p5.48xlarge", "spot", "us-east-1a")), None);
        assert_eq!(on_page("nothing here", &machine("a", "", "")), Ok(None));
    }

    #[test]
    fn the_operator_wins_over_karpenter_and_karpenter_over_the_list() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("prices.txt");
        let mut pricing = Pricing::new(Some(file.clone()));
        let here = machine("g5.xlarge", "spot", "us-east-1a");
        let told = |pricing: &Pricing, machine: &MachineFacts| {
            pricing.of(machine).price.map(|price| (price.per_hour.to_string(), price.source))
        };
        pricing.look_at_file();
        assert_eq!(told(&pricing, &here).unwrap().1, "AWS us-east-1 on demand, 2026-07-20");
        pricing.learn_karpenter(here.clone(), on_page(PAGE, &here).unwrap());
        assert_eq!(told(&pricing, &here).unwrap().0, "$0.4512");
        let other = machine("workstation", "", "");
        assert_eq!(told(&pricing, &other), None, "nobody knows what it costs");
        std::fs::write(&file, "g5.xlarge 0.3\n* 1.5\n").expect("it is written");
        pricing.look_at_file();
        assert_eq!(told(&pricing, &here).unwrap(), ("$0.30".to_owned(), "prices.txt".to_owned()));
        assert_eq!(told(&pricing, &other).unwrap().0, "$1.50");
        // One that is not understood changes nothing.
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(9);
        std::fs::write(&file, "g5.xlarge banana\n").expect("it is written");
        std::fs::File::open(&file).and_then(|file| file.set_modified(later)).expect("a later time");
        pricing.look_at_file();
        assert_eq!(told(&pricing, &here).unwrap().0, "$0.30");
    }
}
