//! Verification of signatures by the logs of this process, and its metrics.

use std::sync::Arc;

use lucarne_ct::Verification;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// Values of the key `verification` in the configuration file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyBy {
    /// Lucarne's own arithmetic for frequent keys.
    #[default]
    Fast,
    /// aws-lc-rs only.
    General,
}

/// Creates the verification that all logs of the process share. A disagreement is logged at level
/// `ERROR`.
pub(crate) fn start(by: VerifyBy, registry: &mut Registry) -> Arc<Verification> {
    let verification = match by {
        VerifyBy::Fast => Verification::by_own_arithmetic(),
        VerifyBy::General => Verification::general(),
    };
    let verification = Arc::new(verification.with_alarm(|disagreement| {
        tracing::error!(
            "Lucarne's verifier accepted a signature that aws-lc-rs refuses: the submission is \
             refused, and aws-lc-rs verifies all signatures from now on. Keep this line, test \
             processor and memory, and report the error: {disagreement}"
        );
    }));
    registry.register_collector(Box::new(Figures(Arc::clone(&verification))));
    verification
}

#[derive(Debug)]
struct Figures(Arc<Verification>);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stats = self.0.stats();
        for (name, help, count) in [
            (
                "lucarne_verification_accepted",
                "Signatures that Lucarne's own arithmetic accepted",
                stats.accepted,
            ),
            (
                "lucarne_verification_rechecked",
                "Accepted signatures that aws-lc-rs verified as well",
                stats.rechecked,
            ),
            (
                "lucarne_verification_disagreements",
                "Accepted signatures that aws-lc-rs refused: anything but 0 is an alarm",
                stats.disagreements,
            ),
        ] {
            let counter = ConstCounter::new(count);
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        for (name, help, unit, value) in [
            (
                "lucarne_verification_fast",
                "1 while Lucarne's own arithmetic verifies signatures, 0 after a disagreement",
                None,
                i64::from(stats.by_own),
            ),
            (
                "lucarne_verification_keys",
                "Keys that Lucarne's own arithmetic remembers",
                None,
                i64::try_from(stats.keys).unwrap_or(i64::MAX),
            ),
            (
                "lucarne_verification_keys",
                "Memory of the keys that Lucarne's own arithmetic remembers",
                Some(&Unit::Bytes),
                i64::try_from(stats.key_bytes).unwrap_or(i64::MAX),
            ),
        ] {
            let gauge = ConstGauge::new(value);
            let metric = encoder.encode_descriptor(name, help, unit, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lucarne_ct::Disagreement;

    use super::*;

    #[test]
    fn a_disagreement_is_in_the_metrics() {
        let mut registry = Registry::default();
        let verification = start(VerifyBy::Fast, &mut registry);
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let before = text();
        for line in [
            "lucarne_verification_disagreements_total 0\n",
            "lucarne_verification_fast 1\n",
            "lucarne_verification_keys 0\n",
            "lucarne_verification_keys_bytes 0\n",
        ] {
            assert!(before.contains(line), "{line} not in\n{before}");
        }
        verification.disagree(Disagreement {
            key: vec![4],
            digest: vec![1; 32],
            signature: vec![0x30],
        });
        let after = text();
        for line in [
            "lucarne_verification_disagreements_total 1\n",
            "lucarne_verification_fast 0\n",
        ] {
            assert!(after.contains(line), "{line} not in\n{after}");
        }
        let general = start(VerifyBy::General, &mut Registry::default());
        assert!(!general.stats().by_own);
    }
}
