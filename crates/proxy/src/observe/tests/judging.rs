use super::*;
use crate::observe::judge::Standing;
use lucarne_ct::{SctFinding, Shortfall, Verdict, delivered_entry};
use lucarne_mint::testing::{OcspResponse, OcspStatus};
use lucarne_mint::{CaOptions, KeyPair, KeyType, Time};

const LOGS: [(u8, &str, &str); 3] = [(1, "A", "usable"), (2, "B", "usable"), (3, "B", "usable")];

fn findings(judgement: &Judgement) -> Vec<SctFinding> {
    let scts = judgement.scts.iter();
    scts.map(|sct| sct.seen.finding.clone()).collect()
}

#[test]
fn where_certificates_stand() {
    let list = list(&LOGS);
    let of = |logs: &[u8]| {
        let leaf = certificate("judged.example", logs);
        judged(&leaf, &SctDeliveries::default(), Some(&list))
    };
    let good = of(&[1, 2]);
    assert_eq!(good.standing, Standing::Good);
    assert!(good.is_logged());
    assert_eq!(good.scts[1].seen.log.as_ref().unwrap().operator, "B");

    let none = of(&[]);
    assert_eq!(none.standing, Standing::NoSct);
    assert!(!none.is_logged());
    let missing = Verdict::NotCompliant(Shortfall::None);
    assert_eq!(none.verdicts, [missing.clone(), missing]);

    let one = of(&[1]);
    assert_eq!(one.standing, Standing::PolicyFailed);
    assert!(one.is_logged());
    let same_operator = of(&[2, 3]);
    assert_eq!(same_operator.standing, Standing::PolicyFailed);

    let stranger = of(&[9]);
    assert_eq!(stranger.standing, Standing::Unverified);
    assert_eq!(findings(&stranger), [SctFinding::UnknownLog]);
    assert!(!stranger.is_logged());
    // Another SCT of an unknown log does no harm.
    assert_eq!(of(&[1, 2, 9]).standing, Standing::Good);
}

#[test]
fn of_too_many_scts_those_of_known_logs_count_first() {
    let list = list(&LOGS);
    let mut logs: Vec<u8> = (10..50).collect();
    logs.extend([1, 2]);
    let leaf = certificate("many.example", &logs);
    let judgement = judged(&leaf, &SctDeliveries::default(), Some(&list));
    assert_eq!(judgement.standing, Standing::Good);
    assert_eq!((judgement.scts.len(), judgement.left_out), (32, 10));
}

#[test]
fn without_a_list_nothing_is_said_to_be_wrong() {
    let leaf = certificate("listless.example", &[1, 2]);
    let judgement = judged(&leaf, &SctDeliveries::default(), None);
    assert_eq!(judgement.standing, Standing::Unverified);
    assert!(!judgement.fails_policy());
    assert_eq!(
        findings(&judgement),
        [SctFinding::UnknownLog, SctFinding::UnknownLog]
    );
}

#[test]
fn false_scts() {
    let list = list(&LOGS);
    let of = |leaf: &[u8]| judged(leaf, &SctDeliveries::default(), Some(&list));
    let template_of = |name: &str| template(&Pki::shared().leaf(name));

    // An SCT of another certificate.
    let other = embedded_scts(&template_of("other.example"), &[1], 1);
    let mine = template_of("mine.example");
    let mut scts = embedded_scts(&mine, &[2], 1);
    scts.extend(other);
    let judgement = of(&embed(mine.clone(), &encode_sct_list(&scts).unwrap()));
    assert_eq!(
        findings(&judgement),
        [SctFinding::Valid, SctFinding::BadSignature]
    );
    assert_eq!(judgement.standing, Standing::Invalid);

    // An SCT with a timestamp of tomorrow.
    let scts = embedded_scts(&mine, &[1, 2], now_ms() + 86_400_000);
    let judgement = of(&embed(mine.clone(), &encode_sct_list(&scts).unwrap()));
    assert_eq!(findings(&judgement)[0], SctFinding::FromTheFuture);
    assert!(!judgement.is_logged());

    // The extension contains no SCT list.
    for list in [&b""[..], b"\0\0", b"\0\x03\0\x01\x07", b"\0\x04\0\x02\0\0"] {
        let judgement = of(&embed(mine.clone(), list));
        let [SctFinding::Unreadable(why)] = &findings(&judgement)[..] else {
            panic!("{list:?}: {:?}", judgement.scts);
        };
        assert!(!why.is_empty());
        assert_eq!(judgement.standing, Standing::Invalid);
    }
    assert_eq!(of(b"not a certificate").standing, Standing::Invalid);
}

#[test]
fn an_issuer_that_was_not_sent_is_looked_for_among_the_roots() {
    let list = list(&LOGS);
    let leaf = certificate("alone.example", &[1, 2]);
    let alone =
        |roots: &Roots| judged_with(&leaf, &[], roots, &SctDeliveries::default(), Some(&list));
    let judgement = alone(&Roots::new());
    assert_eq!(
        findings(&judgement),
        [SctFinding::NoIssuer, SctFinding::NoIssuer]
    );
    assert_eq!(judgement.standing, Standing::Unverified);
    let mut roots = Roots::new();
    roots.add(ca().cert_der()).unwrap();
    let judgement = alone(&roots);
    assert_eq!(judgement.standing, Standing::Good);
}

/// Returns the issuer's OCSP response for `leaf`, with a list of SCTs if there are any.
fn staple(leaf: &[u8], status: OcspStatus, scts: &[Sct]) -> OcspResponse {
    let list = (!scts.is_empty()).then(|| encode_sct_list(scts).unwrap());
    OcspResponse {
        scts: list,
        ..OcspResponse::about(leaf, status).unwrap()
    }
}

fn signed(response: &OcspResponse) -> SctDeliveries {
    SctDeliveries {
        ocsp: response.sign(ca(), ca().key()).unwrap(),
        tls: Vec::new(),
    }
}

#[test]
fn an_issuer_that_was_re_keyed_proves_nothing() {
    let list = list(&LOGS);
    let leaf = certificate("moved.example", &[1, 2]);
    let namesake = CaOptions {
        name: ca().name().clone(),
        ..CaOptions::named("", KeyType::EcdsaP256)
    };
    let namesake = Authority::root(&namesake).unwrap();
    let judged_with = |sent: &[Arc<Issuer>], roots: &Roots| {
        judged_with(&leaf, sent, roots, &SctDeliveries::default(), Some(&list))
    };
    let mut roots = Roots::new();
    roots.add(namesake.cert_der()).unwrap();
    for judgement in [
        judged_with(&[issuer(&namesake)], &Roots::new()),
        judged_with(&[], &roots),
    ] {
        assert_eq!(judgement.standing, Standing::Unverified);
        assert!(!judgement.scts.iter().any(|sct| sct.seen.finding.is_false()));
        let text = judgement.scts[0].seen.finding.text();
        assert!(text.contains("not verified"), "{text}");
    }
    // The certificate whose key signed the leaf decides; other certificates with the same name do
    // not matter.
    let both = judged_with(&[issuer(&namesake), issuer(ca())], &roots);
    assert_eq!(both.standing, Standing::Good);
}

#[test]
fn a_staple_that_says_revoked_or_proves_nothing_is_never_good() {
    let list = list(&LOGS);
    let leaf = certificate("stapled.example", &[1, 2]);
    let of = |deliveries: &SctDeliveries| judged(&leaf, deliveries, Some(&list)).standing;
    let about = |status| staple(&leaf, status, &[]);
    assert_eq!(of(&signed(&about(OcspStatus::Good))), Standing::Good);
    let stranger = KeyPair::generate(KeyType::EcdsaP256).unwrap();
    let by_stranger = SctDeliveries {
        ocsp: about(OcspStatus::Good).sign(ca(), &stranger).unwrap(),
        tls: Vec::new(),
    };
    let unreadable = SctDeliveries {
        ocsp: b"no response".to_vec(),
        tls: Vec::new(),
    };
    let of_another = OcspResponse {
        serial: vec![7],
        ..about(OcspStatus::Good)
    };
    let stale = OcspResponse {
        this_update: Time::now().plus_days(-9),
        next_update: Some(Time::now().plus_days(-2)),
        ..about(OcspStatus::Good)
    };
    let revoked = signed(&about(OcspStatus::Revoked));
    assert_eq!(of(&revoked), Standing::Revoked);
    for (what, deliveries) in [
        ("unknown", signed(&about(OcspStatus::Unknown))),
        ("by a stranger", by_stranger),
        ("unreadable", unreadable),
        ("of another certificate", signed(&of_another)),
        ("stale", signed(&stale)),
    ] {
        assert_eq!(of(&deliveries), Standing::StapleUnverified, "{what}");
    }
    // A certificate without SCTs can be revoked, too. A response that cannot be verified is not a
    // revocation.
    let bare = certificate("bare.example", &[]);
    let deliveries = signed(&staple(&bare, OcspStatus::Revoked, &[]));
    let judgement = judged(&bare, &deliveries, Some(&list));
    assert_eq!(judgement.standing, Standing::Revoked);
    let judgement = judged_with(&leaf, &[], &Roots::new(), &revoked, Some(&list));
    assert_eq!(judgement.standing, Standing::Unverified);
    let text = judgement.staple.text();
    assert!(text.contains("not verified"), "{text}");
}

/// An attacker on the path can replace a staple by garbage, but cannot create a valid staple.
#[tokio::test]
async fn what_proves_nothing_takes_no_revocation_back() {
    let observer = Observer::start(ObserveOptions::new(tls())).await.unwrap();
    let leaf = certificate("stapled.example", &[]);
    let by_issuer = |status| signed(&staple(&leaf, status, &[])).ocsp;
    let mut seen = 0;
    for (ocsp, expected) in [
        (by_issuer(OcspStatus::Good), "good"),
        (by_issuer(OcspStatus::Revoked), "revoked"),
        (b"no response".to_vec(), "revoked"),
        (Vec::new(), "revoked"),
        (by_issuer(OcspStatus::Unknown), "revoked"),
        (by_issuer(OcspStatus::Good), "good"),
    ] {
        observer.seen("stapled.example", &chain(leaf.clone()), &ocsp, b"no list");
        seen += 1;
        let handshakes = &observer.shared().metrics.handshakes;
        until("it is looked at", || handshakes.get() == seen).await;
        let host = get_json(&observer, "host.json", "name=stapled.example");
        assert_eq!(
            host["certificates"][0]["staple"]["status"], expected,
            "{seen}: {host}"
        );
    }
}

#[test]
fn scts_that_come_beside_the_certificate() {
    let list = list(&LOGS);
    let leaf = certificate("stapled.example", &[]);
    let entry = delivered_entry(&Certificate::parse(&leaf).unwrap());
    let sign = |n| log_key(n).sign_sct(1, &entry, 7).unwrap();
    let deliveries = SctDeliveries {
        ocsp: signed(&staple(&leaf, OcspStatus::Good, &[sign(1)])).ocsp,
        tls: encode_sct_list(&[sign(2)]).unwrap(),
    };
    let judgement = judged(&leaf, &deliveries, Some(&list));
    let came: Vec<_> = judgement.scts.iter().map(|sct| sct.seen.delivery).collect();
    assert_eq!(came, [Delivery::Ocsp, Delivery::Tls]);
    // Chrome counts only the SCTs from TLS, Apple counts all.
    let compliant = judgement.verdicts.each_ref().map(Verdict::is_compliant);
    assert_eq!(compliant, [false, true]);
    let by_tls = SctDeliveries {
        ocsp: Vec::new(),
        tls: encode_sct_list(&[sign(1), sign(2)]).unwrap(),
    };
    let judgement = judged(&leaf, &by_tls, Some(&list));
    assert_eq!(judgement.standing, Standing::Good);
    // The SCTs in an unverified staple do not count.
    let stranger = KeyPair::generate(KeyType::EcdsaP256).unwrap();
    let stapled = staple(&leaf, OcspStatus::Good, &[sign(1)]);
    let deliveries = SctDeliveries {
        ocsp: stapled.sign(ca(), &stranger).unwrap(),
        ..deliveries
    };
    let judgement = judged(&leaf, &deliveries, Some(&list));
    assert_eq!(
        findings(&judgement),
        [SctFinding::UnprovenStaple, SctFinding::Valid]
    );
    assert_eq!(judgement.standing, Standing::PolicyFailed);
    // A staple that cannot be parsed has no SCTs.
    let deliveries = SctDeliveries {
        ocsp: b"no response".to_vec(),
        tls: vec![],
    };
    let judgement = judged(&leaf, &deliveries, Some(&list));
    assert_eq!(judgement.standing, Standing::NoSct);
}

#[test]
fn a_certificate_that_lives_long_needs_three() {
    let list = list(&LOGS);
    let mut options = Pki::shared().leaf("long.example");
    options.not_before = Time::now().plus_days(-1);
    options.not_after = options.not_before.plus_days(300);
    for (logs, standing) in [
        (&[1, 2][..], Standing::PolicyFailed),
        (&[1, 2, 3], Standing::Good),
    ] {
        let template = template(&options);
        let scts = embedded_scts(&template, logs, 1);
        let leaf = embed(template, &encode_sct_list(&scts).unwrap());
        let judgement = judged(&leaf, &SctDeliveries::default(), Some(&list));
        assert_eq!(judgement.standing, standing, "{:?}", judgement.verdicts);
    }
}
