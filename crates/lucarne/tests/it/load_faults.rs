//! A log with one fault at a time, caused by a proxy. The load test reports exactly this fault.
//! docs/reference/load/ct-faults.md has the same table.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::cases::judge_all;
use crate::common::load_test::{LoadTest, base64_key, load, log_for_load, roots};
use crate::common::{pki, ready, run, submission};
use crate::faults::{Fault, Observed, Proxy};
use lucarne_ct::EntryKind;
use lucarne_testkit::{Audit, Client, LogUnderTest, Report};

/// A fault and the expected findings.
struct Case {
    fault: Fault,
    /// Description of the fault.
    what: &'static str,
    /// The expected findings.
    findings: &'static [&'static str],
    code: i32,
    /// Possible further findings, which depend on the order of the load test's reads.
    perhaps: &'static [&'static str],
    /// More flags.
    flags: &'static [&'static str],
}

const fn case(
    fault: Fault,
    what: &'static str,
    findings: &'static [&'static str],
    code: i32,
) -> Case {
    Case {
        fault,
        what,
        findings,
        code,
        perhaps: &[],
        flags: &[],
    }
}

impl Case {
    const fn with(self, flags: &'static [&'static str]) -> Self {
        Case { flags, ..self }
    }

    const fn perhaps(self, perhaps: &'static [&'static str]) -> Self {
        Case { perhaps, ..self }
    }

    /// Returns whether the findings match the expected ones.
    fn fits(&self, found: &BTreeSet<String>) -> bool {
        let is = |names: &[&str], name: &String| names.contains(&name.as_str());
        self.findings.iter().all(|name| found.contains(*name))
            && found
                .iter()
                .all(|name| is(self.findings, name) || is(self.perhaps, name))
    }
}

const CASES: [Case; 51] = [
    case(Fault::None, "nothing", &[], 0),
    // Responses of add-chain and add-pre-chain.
    case(Fault::Delayed, "every response 400 ms late", &[], 99).with(&[
        "--threshold",
        "http_req_duration{scenario:write}: p(95)<350",
    ]),
    case(Fault::Dropped, "no response", &["timeout"], 99).with(&["--timeout", "3s"]),
    case(Fault::Reset, "the connection is reset", &["reset"], 99),
    case(
        Fault::Html,
        "an HTML page with status 200",
        &["sct_wellformed"],
        99,
    ),
    case(
        Fault::Refused,
        "400 for a good chain",
        &["submission_accepted"],
        99,
    ),
    case(
        Fault::Unavailable,
        "503 without Retry-After",
        &["retry_after"],
        99,
    )
    .with(&["--probe-interval=0"]),
    case(
        Fault::RetryAfter,
        "503 with Retry-After to some requests",
        &[],
        99,
    )
    .with(&["--probe-interval=0", "--max_runtime=8s"]),
    case(
        Fault::RetryAfter,
        "the same, with the threshold `ct_accepted: rate>0.5` and `--allow vu_time_throttled`",
        &[],
        0,
    )
    .with(&[
        "--probe-interval=0",
        "--max_runtime=8s",
        "--threshold",
        "ct_accepted: rate>0.5",
        "--allow=vu_time_throttled",
    ]),
    case(
        Fault::PutsOff,
        "503 with Retry-After to every request",
        &[],
        99,
    )
    .with(&["--probe-interval=0"]),
    case(
        Fault::SctSignature,
        "a signature with a bit flipped",
        &["sct_signature"],
        99,
    ),
    case(
        Fault::SctLogId,
        "the id of another log",
        &["sct_log_id"],
        99,
    ),
    case(
        Fault::SctTomorrow,
        "signed, a timestamp of tomorrow",
        &["sct_timestamp"],
        99,
    ),
    case(
        Fault::SctIndexTwice,
        "signed, the index in the SCT of another entry",
        &["audit_complete", "inclusion_index", "sct_index_unique"],
        99,
    )
    .with(&["--mmd", "3s"]),
    case(
        Fault::DuplicateChanged,
        "signed, a resubmission gets another timestamp",
        &["duplicate_same"],
        99,
    )
    .with(&["--dup_chance=0.5"]),
    // Signed faults that only the tree reveals.
    case(
        Fault::SctIndex,
        "signed, the index of the neighbouring entry",
        &["audit_complete", "inclusion_index"],
        99,
    )
    .with(&["--mmd", "3s"]),
    case(
        Fault::SctTimestamp,
        "signed, a timestamp one millisecond off",
        &["audit_complete", "inclusion_timestamp"],
        99,
    ),
    case(
        Fault::Forgotten,
        "signed, the entry is not in the log",
        &["audit_complete", "inclusion_entry"],
        99,
    )
    .with(&["--mmd", "3s", "--probe-interval=0"]),
    case(
        Fault::NeverMerged,
        "signed, an index that is never reached",
        &["audit_complete", "inclusion_in_time"],
        99,
    )
    .with(&["--mmd", "1s", "--probe-interval=0"]),
    // Checkpoints.
    case(
        Fault::StaleCheckpoint,
        "always the same checkpoint",
        &["audit_complete", "checkpoint_fresh", "inclusion_in_time"],
        99,
    )
    .with(&["--mmd", "1s", "--max-checkpoint-age", "2s"]),
    case(
        Fault::ForkedCheckpoint,
        "signed, another root for a size seen before",
        &["checkpoint_fork"],
        99,
    )
    .perhaps(&["checkpoint_consistent"]),
    case(
        Fault::InconsistentCheckpoint,
        "signed, a root that does not match the tiles",
        &["checkpoint_consistent"],
        99,
    )
    .perhaps(&["checkpoint_fork"]),
    case(
        Fault::ShrunkenCheckpoint,
        "an old checkpoint after a new one",
        &["checkpoint_growth"],
        99,
    ),
    case(
        Fault::CheckpointOrigin,
        "signed, for another origin",
        &["checkpoint_origin"],
        99,
    ),
    case(
        Fault::CheckpointSignature,
        "a signature with a bit flipped",
        &["checkpoint_signature"],
        99,
    ),
    case(
        Fault::OldClock,
        "signed, ten seconds older than entries in it",
        &["checkpoint_timestamp"],
        99,
    ),
    case(
        Fault::FrozenClock,
        "signed, larger trees with one timestamp",
        &["audit_complete", "checkpoint_growth", "inclusion_in_time"],
        99,
    )
    .perhaps(&["checkpoint_timestamp"]) // the first checkpoint of the auditor may already be frozen
    .with(&["--mmd", "1s"]),
    case(
        Fault::SignatureAtStart,
        "the same before the run begins",
        &["checkpoint_signature"],
        99,
    ),
    case(
        Fault::CheckpointCached,
        "a checkpoint that caches can keep for ever",
        &["cache_control"],
        99,
    ),
    // Submissions that must be refused.
    case(
        Fault::TakesOutsideWindow,
        "an SCT for a certificate outside of the window",
        &["refused_outside_window"],
        99,
    ),
    case(
        Fault::TakesUnknownRoot,
        "an SCT for a chain to an unknown root",
        &["refused_unknown_root"],
        99,
    ),
    case(
        Fault::TakesBadSignature,
        "an SCT for a certificate with a bad signature",
        &["refused_bad_signature"],
        99,
    ),
    case(
        Fault::TakesWrongEndpoint,
        "an SCT for a chain on the wrong endpoint",
        &["refused_wrong_endpoint"],
        99,
    ),
    case(
        Fault::FailsOnNonsense,
        "500 for broken JSON",
        &["refused_malformed"],
        99,
    ),
    case(
        Fault::UnknownPath,
        "200 for a file that does not exist",
        &["refused_unknown_path"],
        99,
    ),
    case(
        Fault::RootsMissing,
        "get-roots without the roots",
        &["roots_served"],
        99,
    ),
    // Tiles and issuers.
    case(
        Fault::HashTile,
        "a wrong hash in every hash tile",
        &["tile_consistent"],
        99,
    ),
    case(
        Fault::HashTileCut,
        "hash tiles that are one byte short",
        &["audit_complete", "inclusion_in_time", "tile_wellformed"],
        99,
    ),
    case(
        Fault::HashTileMissing,
        "404 for hash tiles",
        &["audit_complete", "inclusion_in_time", "tile_served"],
        99,
    ),
    case(
        Fault::DataTile,
        "a changed certificate in every data tile",
        &["entry_hash"],
        99,
    ),
    case(
        Fault::IssuerMissing,
        "404 for issuers",
        &["issuer_served"],
        99,
    ),
    case(
        Fault::IssuerWrong,
        "a changed certificate for each issuer",
        &["issuer_hash"],
        99,
    ),
    case(
        Fault::Gzip,
        "data tiles that claim to be gzip",
        &["encoding"],
        99,
    ),
    case(
        Fault::Precertificate,
        "another precertificate beside each entry",
        &["entry_precertificate"],
        99,
    ),
    case(
        Fault::ChainShuffled,
        "chains in another order",
        &["entry_chain"],
        99,
    ),
    case(
        Fault::ChainCut,
        "chains without their roots",
        &["entry_chain"],
        99,
    ),
    case(
        Fault::ContentType,
        "data tiles as text",
        &["content_type"],
        99,
    ),
    case(
        Fault::ContentType,
        "the same, with `--allow content_type`",
        &["content_type"],
        0,
    )
    .with(&["--allow", "content_type"]),
    case(
        Fault::NoCors,
        "no Access-Control-Allow-Origin",
        &["cors"],
        0,
    ),
    case(
        Fault::RootsAsText,
        "get-roots as text",
        &["roots_content_type"],
        0,
    ),
    case(
        Fault::TileUncached,
        "hash tiles that must not be cached",
        &["tile_cache_control"],
        0,
    ),
];

/// Settings with a window, so that some certificates are outside.
const SETTINGS: &str = "period: 50
notafterstart: 2020-01-01T00:00:00Z
notafterlimit: 2040-01-01T00:00:00Z";

/// Concurrent cases.
const TOGETHER: usize = 4;

#[test]
fn every_lie_is_called_by_its_name() {
    let log = log_for_load(SETTINGS);
    let _server = log.start().unwrap();
    run(ready(&log));
    let roots = roots();
    let name = |case: &Case| format!("{:?}", case.fault);
    judge_all(&CASES, TOGETHER, name, |case| judge(case, &log, &roots));
}

/// Runs a load test of a few seconds through the proxy and compares.
fn judge(case: &Case, log: &LogUnderTest, roots: &str) -> Result<(), String> {
    let proxy = Proxy::start(log, roots, case.fault);
    let mut args: Vec<String> = [
        "ct",
        "--max_write_ops=20",
        "--max_read_ops=10",
        // A low rate on a busy machine is not a finding.
        "--min-achieved=0",
    ]
    .map(str::to_owned)
    .to_vec();
    args.push(format!("--log_url={}", proxy.url()));
    args.push(format!("--origin={}", log.origin()));
    args.push(format!("--log_public_key={}", base64_key(log)));
    let authorities = crate::common::load_test::authorities().display();
    args.push(format!("--roots={authorities}"));
    if !case.flags.iter().any(|flag| flag.contains("max_runtime")) {
        args.push("--max_runtime=4s".to_owned());
    }
    if case.fault != Fault::None && !case.flags.iter().any(|flag| flag.contains("dup")) {
        // A correct response to a resubmission would contradict an earlier false response.
        args.push("--dup_chance=0".to_owned());
    }
    args.extend(case.flags.iter().map(|flag| (*flag).to_owned()));
    let test = load(&args);
    let observed = proxy.observed();
    let expected = (case.findings, case.perhaps);
    let summary_exists = test.path().join("summary.json").exists();
    if summary_exists
        && case.fits(&test.findings())
        && test.code == case.code
        && plausible(case.fault, &test, &observed)
    {
        return Ok(());
    }
    let (found, crossed) = if summary_exists {
        (test.findings(), test.crossed())
    } else {
        Default::default()
    };
    Err(format!(
        "{:?}: exit code {}, found {found:?}, crossed {crossed:?}; expected {} and {expected:?}; \
         {observed:?}\n{}",
        case.fault, test.code, case.code, test.said
    ))
}

/// Returns whether the proxy caused the fault, and the load test itself behaved correctly.
fn plausible(fault: Fault, test: &LoadTest, observed: &Observed) -> bool {
    match fault {
        Fault::None => observed.lies == 0,
        Fault::Delayed => {
            let crossed = test.crossed();
            observed.lies > 0
                && crossed.len() == 1
                && crossed.first().unwrap().contains("p(95)<350")
        }
        // Every rejected submission was retried, and none too early.
        Fault::RetryAfter => observed.impatient == 0 && observed.patient > 0,
        Fault::PutsOff => {
            let expected = [
                "ct_accepted{scenario:write}: rate>=0.99",
                "vu_time_throttled{scenario:write}: rate<=0.1",
            ];
            observed.impatient == 0 && test.crossed() == expected.map(str::to_owned).into()
        }
        _ => observed.lies > 0,
    }
}

/// A log that stops responding for good ends the run with a failure. If the run hangs, the test
/// ends the process after its timeout.
#[test]
fn a_log_that_goes_away_for_good_ends_the_run() {
    let log = log_for_load(SETTINGS);
    let _server = log.start().unwrap();
    run(ready(&log));
    let roots = roots();
    for command in ["ct", "ct-read"] {
        let proxy = Proxy::start(&log, &roots, Fault::GoesAway);
        let url = format!("--log-url={}", proxy.url());
        let origin = format!("--origin={}", log.origin());
        let key = format!("--log-public-key={}", base64_key(&log));
        let authorities = crate::common::load_test::authorities().display();
        let authorities = format!("--roots={authorities}");
        let mut args = vec![command, &url, &origin, &key, "--timeout=10s"];
        match command {
            "ct" => args.extend(["--max_write_ops=20", "--max_runtime=3s", &authorities]),
            _ => args.extend(["--rate=20", "--duration=3s"]),
        }
        let test = load(&args);
        assert_eq!(test.code, 99, "{command}: {}", test.said);
        let findings = test.findings();
        assert!(
            findings.contains("audit_complete"),
            "{command}: {findings:?}"
        );
    }
}

#[test]
fn the_documentation_has_the_same_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/load/ct-faults.md");
    let text = fs::read_to_string(&file).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
    for case in &CASES {
        let findings: Vec<String> = case
            .findings
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let findings = match (findings.is_empty(), case.code) {
            (false, _) => findings.join(", "),
            (true, 0) => "none".to_owned(),
            (true, _) => "the threshold".to_owned(),
        };
        let row = format!("| {} | {findings} | {} |", case.what, case.code);
        assert!(
            rows.contains(&row.as_str()),
            "{} lacks this row:\n{row}",
            file.display()
        );
    }
}

/// An independent auditor reads through the proxy: it must detect the fault of the proxy, and
/// nothing without a fault.
#[test]
fn the_proxy_lies_as_it_says() {
    let log = log_for_load("period: 20");
    let _server = log.start().unwrap();
    run(ready(&log));
    let roots = roots();
    let found = |fault| {
        let proxy = Proxy::start(&log, &roots, fault);
        let audit = Audit::new(
            &proxy.url(),
            &log.origin(),
            log.public_key(),
            roots.as_bytes(),
        );
        let report = run(audited(Client::new(proxy.url()), audit.unwrap()));
        (report.findings, proxy.observed().lies)
    };
    assert_eq!(found(Fault::None), (vec![], 0));
    for (fault, words) in [
        (Fault::SctSignature, "signature"),
        (Fault::SctLogId, "from log"),
        (Fault::SctIndex, "index"),
        (Fault::SctTimestamp, "time)"),
        (Fault::ForkedCheckpoint, "root"),
        (Fault::DataTile, "differs from the hashes of its data"),
        (Fault::HashTile, "tile"),
        (Fault::IssuerWrong, "issuer"),
        (Fault::IssuerMissing, "issuer"),
    ] {
        let (findings, lies) = found(fault);
        let all = findings.join("\n");
        println!("{fault:?}: {lies} lies, {all}");
        assert!(lies > 0 && all.contains(words), "{fault:?}: {all}");
    }
}

/// Submits a few chains, polls the checkpoint in between, and audits.
async fn audited(client: Client, audit: Audit) -> Report {
    for _ in 0..9 {
        let body = submission(&pki().p256);
        let answer = client.post("ct/v1/add-chain", body.clone()).await.unwrap();
        audit.promised(EntryKind::X509, body.as_bytes(), &answer.body);
        audit.poll().await.unwrap();
    }
    audit.run().await.unwrap()
}
