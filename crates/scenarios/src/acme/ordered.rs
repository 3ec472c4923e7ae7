//! Comparison of orders and authorizations with the request for the order.

use lucarne_settings::values::rfc3339;

use super::order::{Authorization, Identifier, Order, OrderStatus};
use crate::option_values::Timestamp;

/// The contents of a request for a new order, which the server's order must repeat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ordered<'a> {
    pub(super) names: &'a [String],
    /// Renewal id of the replaced certificate.
    pub(super) replaces: Option<&'a str>,
}

/// Name of a check, and its result.
pub(super) type OrderFinding = (&'static str, Result<(), ContentError>);

/// The differences between a request and its order or authorization.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ContentError {
    #[error("expected the identifiers {}, found {}", list(.ordered), list(.found))]
    Identifiers {
        ordered: Vec<Identifier>,
        found: Vec<Identifier>,
    },
    #[error("the authorization is for {found}; ordered were {}", list(.ordered))]
    Authorization {
        ordered: Vec<Identifier>,
        found: Identifier,
    },
    #[error("expected {}, found {}", replacement(.ordered), replacement(.found))]
    Replaces {
        ordered: Option<String>,
        found: Option<String>,
    },
    #[error("the {0} {1:?} has no `expires`")]
    NoExpiry(&'static str, OrderStatus),
    #[error("the {0} expired at {time}", time = rfc3339(*.1))]
    Expired(&'static str, u64),
}

fn list(identifiers: &[Identifier]) -> String {
    let texts: Vec<_> = identifiers.iter().map(Identifier::to_string).collect();
    texts.join(", ")
}

fn replacement(replaces: &Option<String>) -> String {
    match replaces {
        Some(id) => format!("`replaces` {id}"),
        None => "no `replaces`".to_owned(),
    }
}

impl Ordered<'_> {
    /// Compares an order with its request (RFC 8555, section 7.1.3; RFC 9773, section 5). The
    /// server may change the order of the identifiers.
    pub(super) fn compare(&self, order: &Order, now_ms: u64) -> [OrderFinding; 3] {
        let mut ordered = self.identifiers();
        let mut found = order.identifiers.clone();
        ordered.sort();
        found
            .iter_mut()
            .for_each(|it| it.value.make_ascii_lowercase());
        found.sort();
        let identifiers = if ordered == found {
            Ok(())
        } else {
            Err(ContentError::Identifiers { ordered, found })
        };
        let found = order.replaces.as_deref().filter(|id| !id.is_empty());
        let replaces = if self.replaces == found {
            Ok(())
        } else {
            Err(ContentError::Replaces {
                ordered: self.replaces.map(str::to_owned),
                found: found.map(str::to_owned),
            })
        };
        let needed = matches!(order.status, OrderStatus::Pending | OrderStatus::Valid);
        let expires = expiry("order", order.status, order.expires, needed, now_ms);
        [
            ("order_identifiers", identifiers),
            ("order_replaces", replaces),
            ("order_expires", expires),
        ]
    }

    /// Checks that an authorization is for an ordered name or for a domain above an ordered name,
    /// as servers may require (RFC 9444, section 4).
    pub(super) fn compare_authorization(
        &self,
        authorization: &Authorization,
        now_ms: u64,
    ) -> [OrderFinding; 2] {
        let (found, status) = (&authorization.identifier, authorization.status);
        let domain = found.value.to_lowercase();
        let covers = |name: &Identifier| {
            let below = name.value.strip_suffix(&domain);
            found.kind == name.kind && below.is_some_and(|it| it.is_empty() || it.ends_with('.'))
        };
        let ordered = self.identifiers();
        let identifier = if !domain.is_empty() && ordered.iter().any(covers) {
            Ok(())
        } else {
            Err(ContentError::Authorization {
                ordered,
                found: found.clone(),
            })
        };
        let needed = status == OrderStatus::Valid;
        let expires = expiry(
            "authorization",
            status,
            authorization.expires,
            needed,
            now_ms,
        );
        [
            ("order_identifiers", identifier),
            ("order_expires", expires),
        ]
    }

    fn identifiers(&self) -> Vec<Identifier> {
        self.names
            .iter()
            .map(|name| Identifier::dns(name))
            .collect()
    }
}

/// Checks that an object has not expired, and has an `expires` if it is `needed`.
fn expiry(
    object: &'static str,
    status: OrderStatus,
    expires: Option<Timestamp>,
    needed: bool,
    now_ms: u64,
) -> Result<(), ContentError> {
    match expires {
        Some(end) if end.unix_ms <= now_ms => Err(ContentError::Expired(object, end.unix_ms)),
        None if needed => Err(ContentError::NoExpiry(object, status)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: u64 = 1_800_000_000_000; // 2027-01-15T08:00:00Z

    fn failed<const N: usize>(findings: [OrderFinding; N]) -> Vec<String> {
        let failed = findings.into_iter().filter_map(|(check, outcome)| {
            let error = outcome.err()?;
            Some(format!("{check}: {error}"))
        });
        failed.collect()
    }

    #[test]
    fn an_order_repeats_its_request() {
        let names = ["b.test".to_owned(), "a.test".to_owned()];
        let ordered = Ordered {
            names: &names,
            replaces: Some("id.1"),
        };
        let good = json!({
            "status": "pending", "authorizations": [], "finalize": "",
            "expires": "2027-01-15T08:00:01Z", "replaces": "id.1",
            "identifiers": [
                { "type": "dns", "value": "A.test" }, { "type": "dns", "value": "b.test" }
            ],
        });
        let judge = |change: &dyn Fn(&mut Value)| {
            let mut order = good.clone();
            change(&mut order);
            failed(ordered.compare(&serde_json::from_value(order).unwrap(), NOW))
        };
        assert_eq!(judge(&|_| ()), [""; 0]);
        for (change, expected) in [
            (
                &(|order: &mut Value| order["identifiers"][0]["value"] = "c.test".into())
                    as &dyn Fn(&mut Value),
                "order_identifiers: expected the identifiers dns:a.test, dns:b.test, \
                 found dns:b.test, dns:c.test",
            ),
            (
                &|order| order["identifiers"][0]["type"] = "ip".into(),
                "order_identifiers: expected the identifiers dns:a.test, dns:b.test, \
                 found dns:b.test, ip:a.test",
            ),
            (
                &|order| {
                    let all = order["identifiers"].as_array_mut().unwrap();
                    all.push(all[0].clone());
                },
                "order_identifiers: expected the identifiers dns:a.test, dns:b.test, \
                 found dns:a.test, dns:a.test, dns:b.test",
            ),
            (
                &|order| order["replaces"] = "".into(),
                "order_replaces: expected `replaces` id.1, found no `replaces`",
            ),
            (
                &|order| order["expires"] = "2027-01-15T08:00:00Z".into(),
                "order_expires: the order expired at 2027-01-15T08:00:00Z",
            ),
            (
                &|order| order["expires"] = Value::Null,
                "order_expires: the order Pending has no `expires`",
            ),
        ] {
            assert_eq!(judge(change), [expected]);
        }
        // RFC 8555 requires `expires` only of pending and valid orders.
        let ready = |order: &mut Value| {
            order["status"] = "ready".into();
            order["expires"] = Value::Null;
        };
        assert_eq!(judge(&ready), [""; 0]);
    }

    #[test]
    fn an_authorization_is_for_an_ordered_name() {
        let names = ["a.example.test".to_owned()];
        let ordered = Ordered {
            names: &names,
            replaces: None,
        };
        for (domain, good) in [
            ("a.example.test", true),
            ("Example.test", true),
            ("xample.test", false),
            ("b.example.test", false),
            ("", false),
        ] {
            let identifier = json!({ "type": "dns", "value": domain });
            let authorization = json!({ "status": "pending", "identifier": identifier });
            let authorization = serde_json::from_value(authorization).unwrap();
            let failed = failed(ordered.compare_authorization(&authorization, NOW));
            assert_eq!(failed.is_empty(), good, "{domain}: {failed:?}");
        }
    }
}
