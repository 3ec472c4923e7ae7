//! The S3 scenario with real object stores, which `scripts/install-test-tools` builds, and with a
//! faulty one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lucarne_load::summary::Series;
use lucarne_load::threshold::{Threshold, Thresholds};
use lucarne_load::{
    ExecutorConfig, Metric, Outcome, PrepareError, Run, Scenario, ScenarioConfig, Verdict,
};
use lucarne_scenarios::connection_options::ResolveOverride;
use lucarne_scenarios::option_values::TimeSpan;
use lucarne_scenarios::s3::{self, AddressingStyle, Operation, S3Options, Size};
use lucarne_testkit::ObjectStore;

use crate::liar::{Liar, Lie};

use Operation::{Create, Delete, Get, Head, Put};

fn options(stores: &[&ObjectStore]) -> S3Options {
    let endpoints = stores.iter().map(|store| store.endpoint.clone());
    S3Options {
        endpoint: endpoints.collect(),
        create_bucket: true,
        access_key: vec![stores[0].access_key.into()],
        secret_key: vec![stores[0].secret_key.into()],
        objects: 8,
        cell_duration: TimeSpan(Duration::from_millis(200)),
        ..S3Options::default()
    }
}

fn run(options: S3Options, users: u64, seconds: u64) -> Outcome {
    let scenario = s3::build(options, 7).unwrap();
    let executor = ExecutorConfig::ConstantVus {
        vus: users,
        duration: Duration::from_secs(seconds),
        iterations: None,
    };
    with_demands(executor, scenario)
}

/// Runs a scenario with its default thresholds.
fn with_demands(executor: ExecutorConfig, scenario: Arc<dyn Scenario>) -> Outcome {
    let run = Run {
        scenarios: vec![ScenarioConfig {
            demands: lucarne_scenarios::scenario("s3").unwrap().thresholds(),
            ..ScenarioConfig::new("store", executor, scenario)
        }],
        ..Run::default()
    };
    crate::finished(run)
}

fn tag<'s>(series: &'s Series, name: &str) -> Option<&'s str> {
    let mut tags = series.tags.iter();
    tags.find(|(other, _)| other == name)
        .map(|(_, value)| value.as_str())
}

fn counter(series: &Series, metric: &str) -> u64 {
    match series.metrics.get(metric) {
        Some(Metric::Counter { count, .. }) => *count,
        other => panic!("{metric} is {other:?}"),
    }
}

/// Returns the lines of the note with this title.
fn note<'o>(outcome: &'o Outcome, title: &str) -> &'o [String] {
    let mut notes = outcome.summary.notes.iter();
    notes
        .find(|note| note.title == title)
        .map_or(&[], |note| &note.lines)
}

#[test]
fn every_cell_of_two_stores_in_one_run() {
    let (versity, minio) = (
        ObjectStore::versitygw().unwrap(),
        ObjectStore::minio().unwrap(),
    );
    let options = S3Options {
        endpoint: vec![
            format!("versitygw={}", versity.endpoint),
            format!("minio={}", minio.endpoint),
        ],
        operations: vec![Put, Get, Head, Create, Delete],
        sizes: vec![Size(4 << 10), Size(1 << 20)],
        concurrency: vec![1, 4],
        ..options(&[&versity])
    };
    let outcome = run(options, 4, 25);
    let summary = &outcome.summary;
    assert_eq!(
        outcome.verdict,
        Verdict::Passed,
        "{:?} {:?}",
        summary.errors,
        summary.checks
    );
    assert!(summary.errors.is_empty(), "{:?}", summary.errors);

    let cells: Vec<_> = summary
        .series
        .iter()
        .filter(|it| tag(it, "endpoint").is_some())
        .collect();
    assert_eq!(cells.len(), 5 * 2 * 2 * 2, "{:?}", summary.notes);
    for cell in cells {
        let requests = counter(cell, "http_reqs");
        assert!(requests > 0, "{:?}", cell.tags);
        let Some(Metric::Gauge { last: seconds, .. }) = cell.metrics.get("cell_seconds") else {
            panic!("{:?} has no time", cell.tags)
        };
        assert!(
            (0.0..20.0).contains(seconds) && *seconds > 0.0,
            "{:?}",
            cell.tags
        );
        let size: Size = tag(cell, "size").unwrap().parse().unwrap();
        match tag(cell, "op").unwrap() {
            "put" | "get" => assert_eq!(counter(cell, "object_bytes"), requests * size.0),
            "create" => assert_eq!(counter(cell, "object_bytes"), requests / 4 * size.0),
            _ => {}
        }
    }
    assert!(
        summary.checks.iter().all(|check| check.fails == 0),
        "{:?}",
        summary.checks
    );
    let verdicts = note(&outcome, "Conditional PUT");
    assert_eq!(verdicts.len(), 2);
    assert!(
        verdicts.iter().all(|line| line.contains(": atomic")),
        "{verdicts:?}"
    );

    // Nothing is left, not even the buckets that the run created.
    let left: Vec<_> = note(&outcome, "Tidying up")
        .iter()
        .filter(|line| line.contains("left"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let data = versity.directory.path().join("data");
    assert!(!data.join("lucarne-load").exists());
}

#[test]
fn either_style_of_address_and_a_bucket_that_stays() {
    for store in [
        ObjectStore::versitygw().unwrap(),
        ObjectStore::minio().unwrap(),
    ] {
        let host = format!("lucarne-load.{}", store.domain);
        let mut options = S3Options {
            endpoint: vec![format!("http://{}:{}", store.domain, store.address.port())],
            style: AddressingStyle::Virtual,
            operations: vec![Put, Get],
            sizes: vec![Size(1000), Size(0)],
            concurrency: vec![2],
            keep: true,
            ..options(&[&store])
        };
        let address = ResolveOverride(host, IpAddr::from([127, 0, 0, 1]));
        options.connection.resolve.push(address);
        let outcome = run(options.clone(), 2, 3);
        assert!(
            outcome.summary.errors.is_empty(),
            "{:?}",
            outcome.summary.errors
        );
        assert_eq!(outcome.verdict, Verdict::Passed);
        assert!(note(&outcome, "Tidying up").is_empty());

        // Another run uses the existing bucket, and keeps it.
        let again = S3Options {
            keep: false,
            create_bucket: false,
            ..options
        };
        let outcome = run(again, 1, 2);
        let few = note(&outcome, "Cells that were not measured completely");
        assert!(
            few.iter().any(|line| line.contains("only 1 users")),
            "{few:?}"
        );
        assert_eq!(note(&outcome, "Tidying up").len(), 1);
    }
}

#[test]
fn a_fixed_rate_does_everything_in_turn() {
    let store = ObjectStore::versitygw().unwrap();
    let options = S3Options {
        operations: vec![Put, Get, Head],
        sizes: vec![Size(2000)],
        mixed: true,
        ..options(&[&store])
    };
    let scenario = s3::build(options, 7).unwrap();
    let executor = ExecutorConfig::ConstantArrivalRate {
        rate: lucarne_load::executor::Rate::per_second(50.0),
        duration: Duration::from_secs(3),
        options: Default::default(),
    };
    let outcome = with_demands(executor, scenario);
    assert_eq!(outcome.verdict, Verdict::Passed);
    assert!(
        outcome.summary.errors.is_empty(),
        "{:?}",
        outcome.summary.errors
    );
    let cells = outcome
        .summary
        .series
        .iter()
        .filter(|it| tag(it, "concurrency") == Some("mixed"));
    let counts: Vec<_> = cells.map(|cell| counter(cell, "http_reqs")).collect();
    assert_eq!(counts.len(), 3);
    assert!(counts.iter().all(|count| *count >= 30), "{counts:?}");
}

fn prepare(options: S3Options) -> Result<(), PrepareError> {
    let scenario = s3::build(options, 7)?;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { scenario.prepare().await })
}

#[test]
fn what_keeps_a_run_from_beginning_is_said() {
    let store = ObjectStore::versitygw().unwrap();
    let good = options(&[&store]);
    let told = |options: S3Options| prepare(options).unwrap_err();
    let wrong = |options: S3Options, word: &str| match told(options) {
        PrepareError::Configuration(text) => assert!(text.contains(word), "{text}"),
        other => panic!("{other:?}"),
    };
    wrong(
        S3Options {
            endpoint: vec![],
            ..good.clone()
        },
        "--endpoint",
    );
    wrong(
        S3Options {
            create_bucket: false,
            ..good.clone()
        },
        "--create-bucket",
    );
    wrong(
        S3Options {
            secret_key: vec!["no".into()],
            ..good.clone()
        },
        "refuses the key",
    );
    wrong(
        S3Options {
            racers: 1,
            ..good.clone()
        },
        "--racers",
    );
    let nowhere = format!("http://127.0.0.1:{}", lucarne_testkit::free_port());
    let nowhere = S3Options {
        endpoint: vec![nowhere],
        ..good
    };
    assert!(matches!(told(nowhere), PrepareError::Unreachable(_)));
}

/// Returns options for small objects at a store with one fault.
fn at_liar(liar: &Liar, operations: &[Operation]) -> S3Options {
    S3Options {
        endpoint: vec![format!("liar=http://{}", liar.address)],
        access_key: vec!["any".into()],
        secret_key: vec!["any".into()],
        operations: operations.to_vec(),
        sizes: vec![Size(100)],
        concurrency: vec![1],
        objects: 4,
        cell_duration: TimeSpan(Duration::from_millis(300)),
        ..S3Options::default()
    }
}

/// Returns the first detail of a check that never passed.
#[track_caller]
fn always_fails(outcome: &Outcome, name: &str) -> String {
    let mut checks = outcome.summary.checks.iter();
    let check = checks.find(|check| check.name == name && check.fails > 0);
    let check = check.unwrap_or_else(|| panic!("no {name} in {:#?}", outcome.summary.checks));
    assert_eq!(check.passes, 0, "{check:?}");
    check.details[0].clone()
}

/// A store that ignores conditions and serves other bytes than the written ones is detected, and
/// every fault has its name.
#[test]
fn a_store_that_lies_is_found_out() {
    let liar = Liar::start(Lie::Bytes);
    let outcome = run(at_liar(&liar, &[Get, Create]), 1, 2);
    assert_eq!(outcome.verdict, Verdict::Crossed);
    let fails = |name| always_fails(&outcome, name);
    assert!(fails("object is what was written").contains("differs from byte 50"));
    assert!(fails("one creator wins").contains("one of 4 creators to succeed, found 4"));
    let kinds: Vec<_> = outcome
        .summary
        .errors
        .iter()
        .map(|it| it.kind.as_str())
        .collect();
    assert!(kinds.contains(&"content"), "{kinds:?}");
    let verdict = &note(&outcome, "Conditional PUT")[0];
    assert!(verdict.starts_with("liar: NOT ATOMIC"), "{verdict}");
    assert!(liar.is_empty(), "everything was removed");
}

#[test]
fn every_lie_fails_a_check() {
    for (lie, operation, check, detail) in [
        (
            Lie::ErrorDocument,
            Put,
            "write is acknowledged",
            "the error InternalError",
        ),
        (
            Lie::Forgets,
            Put,
            "object is what was written",
            "read back: status: 404",
        ),
        (
            Lie::KeepsDeleted,
            Delete,
            "object is deleted",
            "the object still exists",
        ),
        (
            Lie::OtherTag,
            Get,
            "ETag is that of the write",
            "expected the ETag",
        ),
        (
            Lie::OtherTag,
            Head,
            "ETag is that of the write",
            "expected the ETag",
        ),
    ] {
        let liar = Liar::start(lie);
        let outcome = run(at_liar(&liar, &[operation]), 1, 2);
        assert_eq!(outcome.verdict, Verdict::Crossed, "{lie:?}");
        let told = always_fails(&outcome, check);
        assert!(told.contains(detail), "{lie:?}: {told}");
    }
}

/// A wrong list fails the run, and the objects of other clients are not removed.
#[test]
fn wrong_lists_fail_a_check() {
    for (lie, detail) in [
        (Lie::ListsOthers, "found accounts/2026.csv"),
        (Lie::ListsInvented, "expected at most"),
        (Lie::HidesObjects, "expected at least"),
        (Lie::ListsDeleted, "are listed although removed"),
    ] {
        let liar = Liar::start(lie);
        let outcome = run(at_liar(&liar, &[Get]), 1, 1);
        assert_eq!(outcome.verdict, Verdict::Crossed, "{lie:?}");
        let told = always_fails(&outcome, "list is that of the run's objects");
        assert!(told.contains(detail), "{lie:?}: {told}");
        assert!(liar.keeps_others(), "{lie:?}");
    }
}

/// The threshold on all requests permits the failures, but an operation without any success has
/// failed, unless its check is optional.
#[test]
fn an_operation_that_always_fails_has_not_passed() {
    for (allow, verdict, expected) in [
        (
            &[][..],
            Verdict::Crossed,
            &[
                "http_req_failed{concurrency:mixed,endpoint:liar,op:create,scenario:store,size:100B}",
            ][..],
        ),
        (&["one creator wins"], Verdict::Passed, &[]),
    ] {
        let liar = Liar::start(Lie::NoConditions);
        let options = S3Options {
            mixed: true,
            ..at_liar(&liar, &[Get, Create])
        };
        let executor = ExecutorConfig::ConstantVus {
            vus: 1,
            duration: Duration::from_secs(60),
            iterations: Some(10),
        };
        let scenario = s3::build(options, 7).unwrap();
        let total = Threshold::parse("http_req_failed: rate<0.99").unwrap();
        let outcome = crate::finished(Run {
            scenarios: vec![ScenarioConfig {
                demands: lucarne_scenarios::scenario("s3").unwrap().thresholds(),
                ..ScenarioConfig::new("store", executor, scenario)
            }],
            thresholds: Thresholds(vec![total]),
            allow: allow.iter().map(|name| (*name).to_owned()).collect(),
            ..Run::default()
        });
        let crossed = outcome.summary.thresholds.iter().filter(|it| !it.passed);
        let crossed: Vec<_> = crossed.map(|it| it.metric.as_str()).collect();
        assert_eq!((outcome.verdict, &crossed[..]), (verdict, expected));
    }
}

/// One response in 150 is damaged. The threshold on failed requests permits this share, but the
/// threshold on checks does not.
#[test]
fn a_rare_lie_is_not_outvoted() {
    let liar = Liar::start(Lie::RarelyShort);
    let options = S3Options {
        mixed: true,
        ..at_liar(&liar, &[Get])
    };
    let executor = ExecutorConfig::ConstantVus {
        vus: 1,
        duration: Duration::from_secs(60),
        iterations: Some(400),
    };
    let outcome = with_demands(executor, s3::build(options, 7).unwrap());
    let crossed = outcome.summary.thresholds.iter().filter(|it| !it.passed);
    let crossed: Vec<_> = crossed.map(|it| it.metric.as_str()).collect();
    assert_eq!(
        (outcome.verdict, &crossed[..]),
        (Verdict::Crossed, &["checks"][..])
    );
}

/// Two per cent of the objects are damaged, and the read-back reads a sample of them.
#[test]
fn a_few_damaged_objects_are_found_at_the_end() {
    let liar = Liar::start(Lie::DamagesSome);
    let options = S3Options {
        mixed: true,
        objects: 1000,
        ..at_liar(&liar, &[Put])
    };
    let executor = ExecutorConfig::ConstantVus {
        vus: 1,
        duration: Duration::from_secs(60),
        iterations: Some(1000),
    };
    let outcome = with_demands(executor, s3::build(options, 7).unwrap());
    assert_eq!(outcome.verdict, Verdict::Crossed);
    let mut checks = outcome.summary.checks.iter();
    let check = checks.find(|check| check.name == "object is what was written");
    let check = check.unwrap();
    assert_eq!(check.passes + check.fails, 459);
    assert!((1..=20).contains(&check.fails), "{check:?}");
    assert!(check.details[0].contains("read back"), "{check:?}");
    let read = note(&outcome, "Objects read back");
    assert!(
        read[0].starts_with("liar: 100B: 459 of 1000 objects;"),
        "{read:?}"
    );
}

/// Missing ETags, and equal ETags of all objects, are detected before the run.
#[test]
fn entity_tags_are_checked_before_the_run() {
    for (lie, check) in [
        (Lie::NoTag, "store is ready"),
        (Lie::OneTag, "ETag is that of the write"),
    ] {
        let liar = Liar::start(lie);
        let outcome = run(at_liar(&liar, &[Get]), 1, 1);
        assert_eq!(outcome.verdict, Verdict::Crossed, "{:?}", outcome.error);
        always_fails(&outcome, check);
    }
}

#[test]
fn options_are_shared_by_all() {
    // The threads of a run share a scenario.
    fn shared<T: Send + Sync + ?Sized>(_: &T) {}
    let store = S3Options {
        endpoint: vec!["http://127.0.0.1:1".into()],
        access_key: vec!["a".into()],
        secret_key: vec!["b".into()],
        ..S3Options::default()
    };
    let scenario: Arc<_> = s3::build(store, 1).unwrap();
    shared(&*scenario);
}
