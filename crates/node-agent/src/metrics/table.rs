//! Families of series that are made anew for every scrape, so that what is gone has none.

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

/// Names and values, in the order in which they are written.
pub(super) type Labels = Vec<(&'static str, String)>;

/// What kind of number it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gauge,
    /// Its name gets `_total`.
    Counter,
    /// One that grows under a name which others chose.
    Bare,
}

/// One family.
#[derive(Debug)]
pub(super) struct Family {
    name: String,
    help: &'static str,
    kind: Kind,
    rows: Vec<(Labels, f64)>,
}

impl Family {
    pub(super) fn new(name: impl Into<String>, help: &'static str, kind: Kind) -> Self {
        Family { name: name.into(), help, kind, rows: Vec::new() }
    }

    pub(super) fn with(mut self, labels: Labels, value: f64) -> Self {
        self.add(labels, value);
        self
    }

    pub(super) fn add(&mut self, labels: Labels, value: f64) {
        self.rows.push((labels, value));
    }

    /// Nothing where there is no value.
    pub(super) fn add_some(&mut self, labels: impl FnOnce() -> Labels, value: Option<f64>) {
        if let Some(value) = value {
            self.rows.push((labels(), value));
        }
    }

    /// Writes it; one without series is not mentioned.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let kind = match self.kind {
            Kind::Gauge => MetricType::Gauge,
            Kind::Counter => MetricType::Counter,
            Kind::Bare => MetricType::Unknown,
        };
        let mut family = encoder.encode_descriptor(&self.name, self.help, None, kind)?;
        for (labels, value) in &self.rows {
            let one = family.encode_family(labels)?;
            match self.kind {
                Kind::Counter => ConstCounter::new(*value).encode(one)?,
                Kind::Gauge | Kind::Bare => ConstGauge::new(*value).encode(one)?,
            }
        }
        Ok(())
    }
}
