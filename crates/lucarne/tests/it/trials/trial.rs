//! One load test against the targets, either intact or with one fault.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use lucarne_targets::{Fleet, Inventory, Pebble};
use lucarne_testkit::{Launch, TempDir, temp_dir};
use serde_json::Value;

use super::breaker::{Breaker, Fault};
use crate::common::LUCARNE;

/// The load to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    Api,
    Connectors,
    AcmeFlow,
    AcmeBurst,
    BulkRenewal,
    AgentStorm,
    Fleet,
    /// `lucarne load acme --flow enrol`, configured by flags, because there is no plan for it.
    Enrolment,
}

impl Plan {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Plan::Api => "certctl-api",
            Plan::Connectors => "certctl-connectors",
            Plan::AcmeFlow => "certctl-acme-flow",
            Plan::AcmeBurst => "certctl-acme-burst",
            Plan::BulkRenewal => "certctl-bulk-renewal",
            Plan::AgentStorm => "certctl-agent-storm",
            Plan::Fleet => "fleet",
            Plan::Enrolment => "enrolment",
        }
    }
}

/// Settings that shorten the plans, and slow them down for a busy machine. All other rates,
/// durations and starts come from the plans.
const SHORT: [(&str, &str); 11] = [
    ("CERTCTL_DURATION", "3s"),
    ("CERTCTL_STAGGER", "0s"),
    ("CERTCTL_RATE", "10"),
    ("CERTCTL_HANDSHAKES", "600"),
    ("CERTCTL_ACME_USERS", "6"),
    ("CERTCTL_THINK", "200ms"),
    ("FLEET_DURATION", "3s"),
    ("FLEET_SIZE", "3000"),
    ("FLEET_JITTER", "100ms"),
    ("FLEET_CHECK_EVERY", "10d"),
    ("SPEED", "3000"),
];

/// The error of Pebble v2.10.1, with status 500, for the renewal of one certificate in 256. Pebble
/// stores serial numbers without the zero that DER puts before some, but looks for the numbers with
/// this zero, as in RFC 9773 (section 4.1).
const LOST_BY_PEBBLE: &str = "could not find an order for the given certificate";

/// A finished load test.
pub(crate) struct Trial {
    pub(crate) code: i32,
    pub(crate) said: String,
    directory: TempDir,
}

impl Trial {
    /// Runs `plan` with this fault in all of its targets.
    pub(crate) fn run(plan: Plan, fault: Fault, fleet: &Fleet) -> Self {
        // A trial with an error of Pebble itself is repeated. In an enrolment of 3 s, the
        // first error has a probability of one in five.
        let mut trial = Self::run_once(plan, fault, fleet);
        for _ in 0..4 {
            if !trial.said_of(LOST_BY_PEBBLE) && !trial.waits_for_pebble(plan, fault) {
                break;
            }
            trial = Self::run_once(plan, fault, fleet);
        }
        trial
    }

    fn run_once(plan: Plan, fault: Fault, fleet: &Fleet) -> Self {
        // Each server validates challenges at a fixed port, so an enrolment starts its own Pebble.
        let own = (plan == Plan::Enrolment).then(|| Pebble::start(&fleet.authority, 0, 5).unwrap());
        let pebble = own.as_ref().unwrap_or(&fleet.pebble);
        let breakers = Breakers::new(fault, fleet, pebble);
        let directory = temp_dir();
        let mut launch = Launch::new(LUCARNE).arg("load");
        launch = match plan {
            Plan::Enrolment => launch.args(enrolment(&breakers, fleet, pebble)),
            plan => {
                let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
                let file = plans.join(plan.name()).with_extension("yaml");
                launch.arg("run").arg(file)
            }
        };
        for (name, value) in SHORT {
            launch = launch.env(name, value);
        }
        for (name, value) in breakers.environment(fleet) {
            launch = launch.env(name, value);
        }
        let mut process = launch
            .args(["--no-ui", "--summary", "summary.json"])
            .directory(directory.path())
            .spawn()
            .unwrap();
        let status = process.wait(Duration::from_secs(120)).unwrap();
        Trial {
            code: status.code().unwrap_or(-1),
            said: process.output(),
            directory,
        }
    }

    /// Returns the content of `summary.json`; null if the run never began.
    pub(crate) fn summary(&self) -> Value {
        let file = self.directory.path().join("summary.json");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Returns the kinds of errors, except iterations that the end of the run cut off. If the run
    /// never began, the kind comes from the output.
    pub(crate) fn kinds(&self) -> BTreeSet<String> {
        const BEFORE: [(&str, &str); 2] = [
            ("connect_refused", "Connection refused"),
            ("tls", "the TLS handshake"),
        ];
        let summary = self.summary();
        match summary["errors"].as_array() {
            Some(errors) if !errors.is_empty() => {
                let kinds = errors.iter().filter_map(|error| error["kind"].as_str());
                let kinds = kinds.filter(|kind| *kind != "interrupted");
                kinds.map(str::to_owned).collect()
            }
            _ => {
                let said = BEFORE
                    .into_iter()
                    .filter(|(_, words)| self.said.contains(words));
                said.map(|(kind, _)| kind.to_owned()).collect()
            }
        }
    }

    /// Returns whether Pebble has stopped responding. Pebble 2.10.1 locks an order and its
    /// authorizations in both orders (`Order.GetStatus`, and requests for authorizations), so that
    /// concurrent requests can lock its whole store for ever.
    fn waits_for_pebble(&self, plan: Plan, fault: Fault) -> bool {
        let late = matches!(fault, Fault::Slow | Fault::NeverIssued);
        plan == Plan::Enrolment && !late && self.kinds().contains("unanswered")
    }

    /// Returns whether an error contains these words.
    fn said_of(&self, words: &str) -> bool {
        self.summary()["errors"].to_string().contains(words)
    }

    /// Returns the crossed thresholds.
    pub(crate) fn crossed(&self) -> Vec<String> {
        let summary = self.summary();
        let rows = summary["thresholds"].as_array().cloned();
        let rows = rows.unwrap_or_default().into_iter();
        rows.filter(|row| row["passed"] == false)
            .map(|row| format!("{}: {}", row["metric"], row["expression"]))
            .collect()
    }
}

/// Returns the arguments for repeated complete enrolments by eight users.
fn enrolment(breakers: &Breakers, fleet: &Fleet, pebble: &Pebble) -> Vec<String> {
    let directory = format!("https://{}/dir", breakers.pebble.address);
    let ca = fleet.ca_file().display().to_string();
    let http01 = pebble.http01.to_string();
    let words = [
        "acme",
        "--flow=enrol",
        "--directory",
        &directory,
        "--ca",
        &ca,
        // Pebble finds an order by its certificate only a moment after the certificate can be
        // fetched. Until then, the certificate cannot be replaced.
        "--think=300ms",
        "--poll=50ms",
        "--http01-listen",
        &http01,
        "--vus=8",
        "--duration=3s",
        "--graceful-stop=10s",
        "--threshold=http_req_duration: p(95)<2s",
    ];
    words.map(str::to_owned).to_vec()
}

/// A proxy for every target.
struct Breakers {
    inventory: Breaker,
    nginx: Breaker,
    apache: Breaker,
    haproxy: Breaker,
    f5: Breaker,
    pebble: Breaker,
}

impl Breakers {
    fn new(fault: Fault, fleet: &Fleet, pebble: &Pebble) -> Self {
        let before = |address| Breaker::start(address, &fleet.authority, fault);
        Self {
            inventory: before(fleet.inventory.address()),
            nginx: before(fleet.nginx.address),
            apache: before(fleet.apache.address),
            haproxy: before(fleet.haproxy.address),
            f5: before(fleet.f5.server.address()),
            pebble: before(pebble.address),
        }
    }

    fn environment(&self, fleet: &Fleet) -> Vec<(&'static str, String)> {
        let url = |breaker: &Breaker, path: &str| format!("https://{}{path}", breaker.address);
        vec![
            ("CERTCTL_BASE", url(&self.inventory, "")),
            ("CERTCTL_TOKEN", Inventory::TOKEN.to_owned()),
            ("NGINX_TARGET_URL", url(&self.nginx, "")),
            ("APACHE_TARGET_URL", url(&self.apache, "")),
            ("HAPROXY_TARGET_URL", url(&self.haproxy, "")),
            ("F5_TARGET_URL", url(&self.f5, "")),
            ("CERTCTL_ACME_DIRECTORY", url(&self.pebble, "/dir")),
            ("CERTCTL_CA", fleet.ca_file().display().to_string()),
        ]
    }
}
