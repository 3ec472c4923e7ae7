//! The report of each fault of an ACME server.

use lucarne_load::{Outcome, Verdict};

use crate::hostile::{failed, run, run_allowing};
use crate::lying_authority::{Lie, LyingAuthority};

/// Returns the details of all errors.
fn details(outcome: &Outcome) -> String {
    let errors = outcome.summary.errors.iter();
    let details: Vec<_> = errors.flat_map(|it| it.details.clone()).collect();
    details.join("\n")
}

#[test]
fn a_correct_authority_passes() {
    for lie in [Lie::None, Lie::ForeignKeyChange] {
        let authority = LyingAuthority::start(lie);
        let outcome = run("acme", authority.options());
        assert_eq!(failed(&outcome), [""; 0], "{lie:?}: {}", details(&outcome));
        assert_eq!(outcome.verdict, Verdict::Passed, "{}", details(&outcome));
    }
}

#[test]
fn every_lie_of_an_authority_is_named() {
    for (lie, check, words) in [
        (
            Lie::ValidatesNothing,
            "validated",
            "has not requested its challenge",
        ),
        (
            Lie::ValidAtOnce,
            "validated",
            "is valid before any validation",
        ),
        (
            Lie::ReadyAtOnce,
            "validated",
            "order is ready before the validation",
        ),
        (
            Lie::OtherIdentifier,
            "order_identifiers",
            "found dns:other.test",
        ),
        (
            Lie::MoreIdentifiers,
            "order_identifiers",
            ", dns:other.test",
        ),
        (
            Lie::OtherAuthorization,
            "order_identifiers",
            "is for dns:other.test",
        ),
        (Lie::LosesReplaces, "order_replaces", "found no `replaces`"),
        (Lie::Expired, "order_expires", "the order expired at"),
        (
            Lie::NeverExpires,
            "order_expires",
            "Pending has no `expires`",
        ),
        (Lie::Html, "json_type", "application/json, found text/html"),
        (
            Lie::LeafTwice,
            "certificate_chain",
            "2 of the response is the same as certificate 1",
        ),
        (Lie::ForeignNewOrder, "enrolled", ""),
    ] {
        let authority = LyingAuthority::start(lie);
        let outcome = run("acme", authority.options());
        assert_eq!(outcome.verdict, Verdict::Crossed, "{lie:?}");
        assert!(
            failed(&outcome).contains(&check),
            "{lie:?}: {:?}",
            failed(&outcome)
        );
        let checks = outcome.summary.checks.iter();
        let mut told = checks
            .filter(|it| it.name == check)
            .flat_map(|it| &it.details);
        assert!(
            told.any(|it| it.contains(words)),
            "{lie:?}: {:#?}",
            outcome.summary.checks
        );
    }
    let authority = LyingAuthority::start(Lie::ForeignNewOrder);
    let told = details(&run("acme", authority.options()));
    assert!(
        told.contains("found `https://elsewhere.example/`"),
        "{told}"
    );
}

#[test]
fn an_authority_that_validates_nothing_may_be_allowed() {
    for lie in [Lie::ValidatesNothing, Lie::ValidAtOnce, Lie::ReadyAtOnce] {
        let authority = LyingAuthority::start(lie);
        let outcome = run_allowing(&["validated"], "acme", authority.options());
        assert_eq!(
            outcome.verdict,
            Verdict::Passed,
            "{lie:?}: {}",
            details(&outcome)
        );
        assert_eq!(failed(&outcome), ["validated"], "{lie:?}");
        let mut checks = outcome.summary.checks.iter();
        let check = checks.find(|check| check.name == "validated").unwrap();
        let step = ("step".to_owned(), "validation".to_owned());
        assert!(check.tags.contains(&step), "{lie:?}: {:?}", check.tags);
    }
}

#[test]
fn orders_are_polled_until_ready_and_until_valid() {
    let authority = LyingAuthority::start(Lie::Slow);
    let mut options = authority.options();
    options["until"] = "certificate".into();
    let outcome = run("acme", options);
    assert_eq!(failed(&outcome), [""; 0], "{}", details(&outcome));
    assert_eq!(details(&outcome), "");
    assert_eq!(authority.seen(3), (Vec::new(), true));
}
