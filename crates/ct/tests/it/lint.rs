//! The lint: each kind of broken SCT is created and diagnosed; states and policies at a date;
//! precertificates compared with certificates.

use lucarne_ct::lint::{Lint, LintCode, Linted, Weight};
use lucarne_ct::{
    Certificate, LogKey, LogList, Sct, SignedEntry, Verdict, delivered_entry, embedded_entry,
    encode_sct_list, sha256,
};
use lucarne_mint::{Authority, Extension, Template, extension, oid};
use serde_json::{Value, json};

use crate::minting::{now_ms, odd_ca, pki};

fn log_key(n: u8) -> LogKey {
    LogKey::from_seed(&[n; 32]).unwrap()
}

/// Returns a list of logs: number, operator, state and its start. Even numbers are static CT logs.
fn list_of(logs: &[(u8, &str, &str, &str)]) -> LogList {
    let operators = logs.iter().map(|(n, operator, state, since)| {
        let key = log_key(*n);
        let member = if n % 2 == 0 { "tiled_logs" } else { "logs" };
        json!({"name": operator, member: [{
            "description": format!("log {n}"),
            "log_id": key.log_id().to_string(),
            "key": base64_simd::STANDARD.encode_to_string(key.public_key_spki()),
            "url": "https://log.example/",
            "submission_url": "https://log.example/",
            "monitoring_url": "https://log.example/",
            "state": {*state: {"timestamp": since}}
        }]})
    });
    let list = json!({"operators": operators.collect::<Vec<Value>>()});
    LogList::parse(list.to_string().as_bytes()).unwrap()
}

const SINCE: &str = "2022-01-01T00:00:00Z";

fn list() -> LogList {
    list_of(&[(1, "A", "usable", SINCE), (2, "B", "usable", SINCE)])
}

fn ca() -> &'static Authority {
    &pki().p256
}

fn template() -> Template {
    ca().leaf_template(&pki().leaf("lint.example")).unwrap()
}

fn bare(template: &Template) -> SignedEntry {
    let der = ca().sign(template).unwrap();
    let issuer = Certificate::parse(ca().cert_der()).unwrap();
    embedded_entry(&Certificate::parse(&der).unwrap(), &issuer)
}

fn sct(n: u8, entry: &SignedEntry) -> Sct {
    log_key(n)
        .sign_sct(now_ms() - 60_000, entry, 70_000 * u64::from(n))
        .unwrap()
}

fn embed(mut template: Template, list: &[u8]) -> Vec<u8> {
    let extension = Extension::new(oid::SCT_LIST, false, |der| der.octet_string(list));
    template.extensions.push(extension);
    ca().sign(&template).unwrap()
}

/// Returns a certificate with valid SCTs of logs 1 and 2, the second of which is changed.
fn with(change: impl FnOnce(&mut Sct, &Template)) -> Vec<u8> {
    let template = template();
    let entry = bare(&template);
    let mut scts = [sct(1, &entry), sct(2, &entry)];
    change(&mut scts[1], &template);
    embed(template, &encode_sct_list(&scts).unwrap())
}

struct Asked<'a> {
    list: Option<&'a LogList>,
    issuers: Vec<&'a [u8]>,
    at_ms: u64,
}

impl Default for Asked<'_> {
    fn default() -> Self {
        Asked {
            list: None,
            issuers: vec![ca().cert_der(), pki().root.cert_der()],
            at_ms: now_ms(),
        }
    }
}

fn lint(leaf: &[u8], precertificate: Option<&[u8]>, asked: Asked<'_>) -> Linted {
    let issuers = asked.issuers.iter();
    let issuers: Vec<_> = issuers
        .map(|der| Certificate::parse(der).unwrap())
        .collect();
    let precertificate = precertificate.map(|der| Certificate::parse(der).unwrap());
    Lint {
        list: asked.list,
        issuers: &issuers,
        at_ms: asked.at_ms,
    }
    .look_at(&Certificate::parse(leaf).unwrap(), precertificate.as_ref())
}

fn linted(leaf: &[u8]) -> Linted {
    let list = list();
    let asked = Asked {
        list: Some(&list),
        ..Asked::default()
    };
    lint(leaf, None, asked)
}

fn codes(linted: &Linted) -> Vec<&'static str> {
    linted
        .findings
        .iter()
        .map(|found| found.code.name())
        .collect()
}

#[test]
fn a_good_certificate_has_no_finding() {
    let good = linted(&with(|_, _| ()));
    assert_eq!(good.findings, []);
    assert_eq!(good.scts.len(), 2);
    assert!(
        good.policies
            .iter()
            .all(|policy| policy.verdict.is_compliant())
    );
}

type Change = fn(&mut Sct, &Template);

/// Each change of an SCT, and the expected code.
const BROKEN: &[(&str, Change)] = &[
    ("sct-extensions-dropped", |sct, _| sct.extensions.clear()),
    ("sct-extensions-base64", |sct, _| {
        sct.extensions = base64_simd::STANDARD
            .encode_to_string(&sct.extensions)
            .into_bytes();
    }),
    // The index is off by one.
    ("sct-leaf-index", |sct, _| sct.extensions[7] += 1),
    // The bytes are in little-endian order.
    ("sct-leaf-index", |sct, _| sct.extensions[3..].reverse()),
    // Type and length are missing.
    ("sct-leaf-index", |sct, _| drop(sct.extensions.drain(..3))),
    // The index is too far away to be found. Other SCTs verify, so the entry is right.
    ("sct-altered", |sct, _| sct.extensions[5] += 9),
    ("sct-altered", |sct, _| sct.timestamp -= 1000),
    ("sct-issuer-key-hash", |sct, template| {
        resign(sct, sha256(&[ca().cert_der()]), template);
    }),
    ("sct-issuer-key-hash", |sct, template| {
        resign(sct, sha256(&[pki().root.key().spki()]), template);
    }),
    ("sct-issuer-key-hash", |sct, template| {
        resign(sct, [0; 32], template);
    }),
    ("sct-entry-type", |sct, template| {
        let SignedEntry::Precert { tbs, .. } = bare(template) else {
            unreachable!("an embedded entry");
        };
        *sct = self::sct(2, &SignedEntry::X509 { certificate: tbs });
    }),
    ("sct-from-the-future", |sct, template| {
        *sct = log_key(2)
            .sign_sct(now_ms() + 3_600_000, &bare(template), 7)
            .unwrap();
    }),
];

/// Lets log 2 sign for another issuer key hash.
fn resign(sct: &mut Sct, issuer_key_hash: [u8; 32], template: &Template) {
    let SignedEntry::Precert { tbs, .. } = bare(template) else {
        unreachable!("an embedded entry");
    };
    let entry = SignedEntry::Precert {
        issuer_key_hash,
        tbs,
    };
    *sct = self::sct(2, &entry);
}

#[test]
fn each_broken_sct_is_named() {
    for (code, change) in BROKEN {
        let found = linted(&with(*change));
        let of_sct: Vec<_> = found.findings.iter().filter(|f| f.sct == Some(1)).collect();
        let [finding] = &of_sct[..] else {
            panic!("{code}: {:?}", found.findings);
        };
        assert_eq!(finding.code.name(), *code, "{}", finding.detail);
        assert_eq!(finding.code.weight(), Weight::Wrong);
        // One valid SCT is not sufficient for any policy.
        for policy in ["chrome-policy", "apple-policy"] {
            assert!(
                codes(&found).contains(&policy),
                "{code}: {:?}",
                codes(&found)
            );
        }
    }
}

#[test]
fn a_certificate_of_another_tbs_has_no_sct_that_verifies() {
    let template = template();
    let entry = bare(&template);
    let list = encode_sct_list(&[sct(1, &entry), sct(2, &entry)]).unwrap();
    let mut other = template;
    other.serial[3] ^= 1;
    let found = linted(&embed(other, &list));
    assert_eq!(
        codes(&found),
        [
            "sct-signature",
            "sct-signature",
            "chrome-policy",
            "apple-policy"
        ]
    );
}

#[test]
fn lists_that_are_none() {
    let as_text =
        base64_simd::STANDARD.encode_to_string(sct(1, &bare(&template())).to_tls().unwrap());
    let mut list = ((as_text.len() + 2) as u16).to_be_bytes().to_vec();
    list.extend((as_text.len() as u16).to_be_bytes());
    list.extend(as_text.as_bytes());
    for (list, code) in [
        (&b""[..], "sct-unreadable"),
        (b"\0\0", "sct-unreadable"),
        (b"\0\x03\0\x01\x07", "sct-unreadable"),
        (&list, "sct-is-text"),
    ] {
        let found = linted(&embed(template(), list));
        assert_eq!(codes(&found)[0], code);
    }
}

#[test]
fn what_cannot_be_verified_is_never_good() {
    let good = with(|_, _| ());
    let list = list();
    let of_one = list_of(&[(1, "A", "usable", SINCE)]);
    let asked = |list, issuers| Asked {
        list,
        issuers,
        ..Asked::default()
    };
    let chrome_apple = ["chrome-unverified", "apple-unverified"];
    for (name, asked, wanted) in [
        ("no list", asked(None, vec![ca().cert_der()]), "no-log-list"),
        ("no issuer", asked(Some(&list), vec![]), "no-issuer"),
        (
            "one log",
            asked(Some(&of_one), vec![ca().cert_der()]),
            "unknown-log",
        ),
    ] {
        let found = lint(&good, None, asked);
        assert_eq!(codes(&found)[0], wanted, "{name}");
        assert_eq!(codes(&found)[1..], chrome_apple, "{name}");
        assert!(!found.has(Weight::Wrong), "{name}");
    }
    let namesake = odd_ca(&pki().root, "Lucarne Test E1", |template| {
        template.subject = ca().name().clone();
    });
    let found = lint(&good, None, asked(Some(&list), vec![namesake.cert_der()]));
    assert_eq!(codes(&found)[0], "other-issuer");

    let without = ca().sign(&template()).unwrap();
    assert_eq!(
        codes(&linted(&without)),
        ["no-sct", chrome_apple[0], chrome_apple[1]]
    );
}

/// 1 January 2026.
const NEW_YEAR_MS: u64 = 1_767_225_600_000;

/// Returns a certificate of 90 days that starts at a time, with SCTs of that time.
fn issued_at(at_ms: u64) -> Vec<u8> {
    let mut template = template();
    let at = (at_ms / 1000) as i64;
    template.not_before = lucarne_mint::Time::from_unix(at);
    template.not_after = lucarne_mint::Time::from_unix(at + 90 * 86_400 - 1);
    let entry = bare(&template);
    let scts = [1, 2].map(|n| log_key(n).sign_sct(at_ms, &entry, 7).unwrap());
    embed(template, &encode_sct_list(&scts).unwrap())
}

#[test]
fn states_are_those_of_the_date() {
    let leaf = issued_at(NEW_YEAR_MS - 1000);
    let logs = |state, since| list_of(&[(1, "A", "usable", SINCE), (2, "B", state, since)]);
    let at = |list: &LogList, at_ms| {
        let asked = Asked {
            list: Some(list),
            at_ms,
            ..Asked::default()
        };
        let found = lint(&leaf, None, asked);
        let state = found.scts[1].state.map(|state| state.status.name());
        (codes(&found), state)
    };
    let new_year = "2026-01-01T00:00:00Z";
    // A log that was retired after it signed counts together with a current log.
    let retired = logs("retired", new_year);
    assert_eq!(at(&retired, NEW_YEAR_MS + 1), (vec![], Some("retired")));
    // The list does not have the state before the retirement.
    let (found, state) = at(&retired, NEW_YEAR_MS - 1);
    assert_eq!(found, ["chrome-unverified", "apple-unverified"]);
    assert_eq!(state, None);
    // A log that was retired before it signed, rejected or pending does not count.
    for list in [
        logs("retired", "2025-01-01T00:00:00Z"),
        logs("rejected", new_year),
        logs("pending", new_year),
    ] {
        let (found, _) = at(&list, NEW_YEAR_MS + 1);
        assert_eq!(found, ["chrome-policy", "apple-policy"]);
    }
}

#[test]
fn old_lists_and_old_rules_are_no_verdict() {
    let leaf = issued_at(NEW_YEAR_MS);
    let mut json = json!({"log_list_timestamp": "2026-01-01T00:00:00Z", "operators": []});
    let entry = |n: u8| {
        let key = log_key(n);
        json!({"name": format!("operator {n}"), "logs": [{
            "log_id": key.log_id().to_string(),
            "key": base64_simd::STANDARD.encode_to_string(key.public_key_spki()),
            "url": "https://log.example/",
            "state": {"usable": {"timestamp": SINCE}}
        }]})
    };
    json["operators"] = json!([entry(1), entry(2)]);
    let list = LogList::parse(json.to_string().as_bytes()).unwrap();
    let found = |days: u64| {
        let asked = Asked {
            list: Some(&list),
            at_ms: NEW_YEAR_MS + days * 86_400_000,
            ..Asked::default()
        };
        codes(&lint(&leaf, None, asked))
    };
    assert_eq!(found(70), [""; 0]);
    assert_eq!(found(71), ["old-log-list"]);

    // A certificate of a year under the rules of 2020, which required two logs.
    let mut template = template();
    template.not_before = lucarne_mint::Time::from_unix(1_577_836_800);
    template.not_after = lucarne_mint::Time::from_unix(1_609_459_200);
    let entry = bare(&template);
    let scts = [1, 2].map(|n| log_key(n).sign_sct(1_577_836_800_000, &entry, 7).unwrap());
    let leaf = embed(template, &encode_sct_list(&scts).unwrap());
    assert_eq!(
        codes(&linted(&leaf)),
        ["chrome-unverified", "apple-unverified"]
    );
}

fn poisoned(mut template: Template) -> Template {
    template.extensions.push(extension::poison());
    template
}

#[test]
fn precertificates_by_themselves() {
    let good = ca().sign(&poisoned(template())).unwrap();
    let found = linted(&good);
    assert_eq!(found.findings, []);
    let twice = ca().sign(&poisoned(poisoned(template()))).unwrap();
    assert_eq!(codes(&linted(&twice)), ["poison"]);
    let list = encode_sct_list(&[sct(1, &bare(&template()))]).unwrap();
    let with_scts = embed(poisoned(template()), &list);
    assert_eq!(codes(&linted(&with_scts)), ["precertificate-scts"]);
    let asked = Asked {
        issuers: vec![],
        ..Asked::default()
    };
    assert_eq!(codes(&lint(&good, None, asked)), ["no-issuer"]);
}

/// Returns a precertificate, and its certificate, which `change` modifies after the logs have
/// signed.
fn pair(change: impl FnOnce(&mut Template)) -> (Vec<u8>, Vec<u8>) {
    let mut template = template();
    let precertificate = ca().sign(&poisoned(template.clone())).unwrap();
    let entry = bare(&template);
    let list = encode_sct_list(&[sct(1, &entry), sct(2, &entry)]).unwrap();
    change(&mut template);
    (precertificate, embed(template, &list))
}

fn compared(pair: &(Vec<u8>, Vec<u8>)) -> Vec<&'static str> {
    let list = list();
    let asked = Asked {
        list: Some(&list),
        ..Asked::default()
    };
    codes(&lint(&pair.1, Some(&pair.0), asked))
}

/// The expected code, and the change of the certificate.
type Differing = (&'static str, fn(&mut Template));

#[test]
fn certificates_that_differ_from_their_precertificate() {
    assert_eq!(compared(&pair(|_| ())), [""; 0]);
    let changes: [Differing; 6] = [
        ("field-differs", |template| template.serial[2] ^= 1),
        ("field-differs", |template| {
            template.not_after = lucarne_mint::Time::from_unix(1_900_000_000);
        }),
        ("extension-missing", |template| {
            template.remove_extension(&oid::EXTENDED_KEY_USAGE);
        }),
        ("extension-added", |template| {
            let added = Extension::new(oid::PRECERT_SIGNING, false, |der| der.null());
            template.extensions.push(added);
        }),
        ("extension-differs", |template| {
            template.remove_extension(&oid::SUBJECT_ALT_NAME);
            let names = extension::subject_alt_name(&["other.example"]);
            template.extensions.push(names);
        }),
        ("extension-order", |template| {
            template.extensions.swap(0, 1);
        }),
    ];
    for (code, change) in changes {
        let found = compared(&pair(change));
        assert_eq!(
            found,
            [
                code,
                "sct-for-precertificate",
                "sct-for-precertificate",
                "chrome-policy",
                "apple-policy"
            ]
        );
    }
}

#[test]
fn a_precertificate_signing_certificate_is_seen_through() {
    let preissuer = odd_ca(ca(), "Precert signing", |template| {
        let purpose = extension::extended_key_usage(&[oid::PRECERT_SIGNING]);
        template.extensions.insert(0, purpose);
    });
    let template = template();
    let mut signed = poisoned(template.clone());
    signed.issuer = preissuer.name().clone();
    *signed.extension_mut(&oid::AUTHORITY_KEY_ID).unwrap() =
        extension::authority_key_id(preissuer.key().id());
    signed.algorithm = preissuer.key().default_algorithm();
    let precertificate = preissuer.sign(&signed).unwrap();
    let entry = bare(&template);
    let scts = encode_sct_list(&[sct(1, &entry), sct(2, &entry)]).unwrap();
    let leaf = embed(template, &scts);
    let list = list();
    let with = |issuers| {
        let asked = Asked {
            list: Some(&list),
            issuers,
            ..Asked::default()
        };
        codes(&lint(&leaf, Some(&precertificate), asked))
    };
    assert_eq!(with(vec![ca().cert_der(), preissuer.cert_der()]), [""; 0]);
    // Without the issuer, nothing can be compared.
    assert_eq!(with(vec![ca().cert_der()]), ["no-issuer"]);
}

#[test]
fn a_final_certificates_entry_is_no_embedded_one() {
    let template = template();
    let der = ca().sign(&template).unwrap();
    let certificate = Certificate::parse(&der).unwrap();
    let mut scts = vec![sct(1, &bare(&template))];
    scts.push(sct(2, &delivered_entry(&certificate)));
    let found = linted(&embed(template, &encode_sct_list(&scts).unwrap()));
    // The logged certificate had no SCTs, which the lint cannot know.
    assert_eq!(codes(&found)[0], "sct-altered");
    let verdicts = found.policies.iter();
    for policy in verdicts {
        assert!(matches!(policy.verdict, Verdict::NotCompliant(_)));
    }
}

#[test]
fn codes_are_different() {
    let mut names: Vec<_> = LintCode::ALL.iter().map(|code| code.name()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
