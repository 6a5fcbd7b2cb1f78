//! Ledgers as documents: what agents keep on disk for each hour and tell over HTTP, exact to the last digit.

use super::amount::{Cost, Millis};
use super::book::{Bill, Ledger};
use super::interval::Account;
use carve_gpu_model::Mechanism;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What documents say they are.
pub const API_VERSION: &str = "carve.dev/v1alpha1";
const KIND: &str = "Ledger";

/// One machine's ledger for a while. Amounts are whole numbers, 3,600,000,000,000 to the dollar, so that nothing is lost on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerDocument {
    /// `carve.dev/v1alpha1`.
    pub api_version: String,
    /// `Ledger`.
    pub kind: String,
    /// The machine.
    pub node: String,
    /// Seconds since 1970 from which on it counts.
    pub from: i64,
    /// Seconds since 1970 up to which it counts.
    pub until: i64,
    /// What the machine is and costs now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceDocument>,
    /// Milliseconds in which nobody knew the price, so that they cost nothing here.
    pub unpriced_millis: u64,
    /// Everybody's row, and nobody's.
    pub rows: Vec<RowDocument>,
}

/// What a machine costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PriceDocument {
    /// Type of the machine, as its cloud calls it; empty where unknown.
    pub instance_type: String,
    /// Millionths of a dollar for an hour; absent where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micros_per_hour: Option<u64>,
    /// Who says so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// One row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RowDocument {
    /// Whose it is; absent where it is nobody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountDocument>,
    /// Milliseconds of a whole GPU that were given out.
    #[serde(default)]
    pub gpu_millis: u64,
    /// Given out and used.
    #[serde(default)]
    pub used: u64,
    /// Given out and not used.
    #[serde(default)]
    pub idle_held: u64,
    /// Given out, and nobody can tell.
    #[serde(default)]
    pub unmeasured: u64,
    /// Not given out.
    #[serde(default)]
    pub idle: u64,
    /// Not given out, and no slice by itself.
    #[serde(default)]
    pub fragmentation: u64,
    /// Not to be had.
    #[serde(default)]
    pub overhead: u64,
}

/// Whose a row is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountDocument {
    /// Namespace of the pod.
    pub namespace: String,
    /// `Deployment/web`.
    pub workload: String,
    /// The pod.
    pub pod: String,
    /// How its slice is made.
    pub mechanism: String,
    /// Whether that is done within a MIG device.
    #[serde(default)]
    pub within_mig: bool,
}

/// Why a document is no ledger.
#[derive(Debug, Error)]
pub enum DocumentError {
    /// No JSON, or other fields.
    #[error("this is not a ledger: {0}; it is what an agent answers under /api/v1/ledger")]
    Shape(#[from] serde_json::Error),
    /// Something else, or of another time.
    #[error("this is {kind} of {api_version}, not Ledger of {API_VERSION}; use the carve that wrote it")]
    Version {
        /// What it says it is.
        kind: String,
        /// Of which version.
        api_version: String,
    },
    /// A mechanism that nobody knows.
    #[error("the mechanism '{0}' is not known; use the carve that wrote it")]
    Mechanism(String),
}

/// What machines are, beside what they cost whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// Seconds since 1970.
    pub from: i64,
    /// Seconds since 1970.
    pub until: i64,
    /// Milliseconds in which nobody knew the price.
    pub unpriced: Millis,
}

impl LedgerDocument {
    /// Reads one.
    pub fn read(text: &str) -> Result<Self, DocumentError> {
        let document: LedgerDocument = serde_json::from_str(text)?;
        if document.kind != KIND || document.api_version != API_VERSION {
            let (kind, api_version) = (document.kind, document.api_version);
            return Err(DocumentError::Version { kind, api_version });
        }
        Ok(document)
    }

    /// Reads one, or a list of them.
    pub fn read_all(text: &str) -> Result<Vec<Self>, DocumentError> {
        let value: serde_json::Value = serde_json::from_str(text)?;
        match value["items"].as_array() {
            Some(items) => items.iter().map(|item| Self::read(&item.to_string())).collect(),
            None => Ok(vec![Self::read(text)?]),
        }
    }

    /// Writes down what a ledger says about one machine.
    pub fn of(ledger: &Ledger, node: &str, span: &Span, price: Option<PriceDocument>) -> Self {
        let rows = ledger.rows().filter(|(on, _, _)| *on == node).map(|(node, owner, bill)| RowDocument {
            account: owner.map(AccountDocument::from),
            gpu_millis: owner.map_or(0, |owner| ledger.gpu_time(node, owner).0),
            used: bill.used.exact(),
            idle_held: bill.idle_held.exact(),
            unmeasured: bill.unmeasured.exact(),
            idle: bill.idle.exact(),
            fragmentation: bill.fragmentation.exact(),
            overhead: bill.overhead.exact(),
        });
        LedgerDocument {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            node: node.to_owned(),
            from: span.from,
            until: span.until,
            price,
            unpriced_millis: span.unpriced.0,
            rows: rows.collect(),
        }
    }

    /// The ledger that it is about.
    pub fn ledger(&self) -> Result<Ledger, DocumentError> {
        let mut ledger = Ledger::default();
        for row in &self.rows {
            let bill = Bill {
                used: Cost::from_exact(row.used),
                idle_held: Cost::from_exact(row.idle_held),
                unmeasured: Cost::from_exact(row.unmeasured),
                idle: Cost::from_exact(row.idle),
                fragmentation: Cost::from_exact(row.fragmentation),
                overhead: Cost::from_exact(row.overhead),
            };
            let account = row.account.as_ref().map(Account::try_from).transpose()?;
            ledger.enter(&self.node, account, bill, Millis(row.gpu_millis));
        }
        Ok(ledger)
    }

    /// When it counts.
    pub fn span(&self) -> Span {
        Span { from: self.from, until: self.until, unpriced: Millis(self.unpriced_millis) }
    }
}

impl From<&Account> for AccountDocument {
    fn from(account: &Account) -> Self {
        AccountDocument {
            namespace: account.namespace.clone(),
            workload: account.workload.clone(),
            pod: account.pod.clone(),
            mechanism: account.mechanism.name().to_owned(),
            within_mig: account.within_mig,
        }
    }
}

impl TryFrom<&AccountDocument> for Account {
    type Error = DocumentError;

    fn try_from(document: &AccountDocument) -> Result<Self, DocumentError> {
        let named = |mechanism: &Mechanism| mechanism.name() == document.mechanism;
        let mechanism = Mechanism::ALL.into_iter().find(named);
        Ok(Account {
            namespace: document.namespace.clone(),
            workload: document.workload.clone(),
            pod: document.pod.clone(),
            mechanism: mechanism.ok_or_else(|| DocumentError::Mechanism(document.mechanism.clone()))?,
            within_mig: document.within_mig,
        })
    }
}
