use super::*;
use crate::observe::judge::{Finding, Standing};
use lucarne_ct::{Shortfall, Verdict};
use lucarne_mint::{Der, Time};

const LOGS: [(u8, &str, &str); 3] = [(1, "A", "usable"), (2, "B", "usable"), (3, "B", "usable")];

fn findings(judgement: &Judgement) -> Vec<Finding> {
    let scts = judgement.scts.iter();
    scts.map(|sct| sct.finding.clone()).collect()
}

#[test]
fn where_certificates_stand() {
    let list = list(&LOGS);
    let of = |logs: &[u8]| {
        let leaf = certificate("judged.example", logs);
        judged(&leaf, &Beside::default(), Some(&list))
    };
    let good = of(&[1, 2]);
    assert_eq!(good.standing, Standing::Good);
    assert!(good.is_logged());
    assert_eq!(good.scts[1].log.as_ref().unwrap().operator, "B");

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
    assert_eq!(findings(&stranger), [Finding::UnknownLog]);
    assert!(!stranger.is_logged());
    // One log more that nobody knows does no harm.
    assert_eq!(of(&[1, 2, 9]).standing, Standing::Good);
}

#[test]
fn without_a_list_nothing_is_said_to_be_wrong() {
    let leaf = certificate("listless.example", &[1, 2]);
    let judgement = judged(&leaf, &Beside::default(), None);
    assert_eq!(judgement.standing, Standing::Unverified);
    assert!(!judgement.fails_policy());
    assert_eq!(
        findings(&judgement),
        [Finding::UnknownLog, Finding::UnknownLog]
    );
}

#[test]
fn false_scts() {
    let list = list(&LOGS);
    let of = |leaf: &[u8]| judged(leaf, &Beside::default(), Some(&list));
    let template_of = |name: &str| template(&Pki::shared().leaf(name));

    // Taken from another certificate.
    let other = embedded_scts(&template_of("other.example"), &[1], 1);
    let mine = template_of("mine.example");
    let mut scts = embedded_scts(&mine, &[2], 1);
    scts.extend(other);
    let judgement = of(&embed(mine.clone(), &encode_sct_list(&scts).unwrap()));
    assert_eq!(
        findings(&judgement),
        [Finding::Valid, Finding::BadSignature]
    );
    assert_eq!(judgement.standing, Standing::Invalid);

    // Of tomorrow.
    let scts = embedded_scts(&mine, &[1, 2], now_ms() + 86_400_000);
    let judgement = of(&embed(mine.clone(), &encode_sct_list(&scts).unwrap()));
    assert_eq!(findings(&judgement)[0], Finding::FromTheFuture);
    assert!(!judgement.is_logged());

    // No SCTs at all, in a place where they should be.
    for list in [&b""[..], b"\0\0", b"\0\x03\0\x01\x07", b"\0\x04\0\x02\0\0"] {
        let judgement = of(&embed(mine.clone(), list));
        let [Finding::Unreadable(why)] = &findings(&judgement)[..] else {
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
    let alone = Subject {
        leaf: &leaf,
        issuers: &[],
        beside: &Beside::default(),
    };
    let judgement = judge(&alone, Some(&list), &Roots::new(), now_ms());
    assert_eq!(findings(&judgement), [Finding::NoIssuer, Finding::NoIssuer]);
    assert_eq!(judgement.standing, Standing::Unverified);
    let mut roots = Roots::new();
    roots.add(ca().cert_der()).unwrap();
    let judgement = judge(&alone, Some(&list), &roots, now_ms());
    assert_eq!(judgement.standing, Standing::Good);
}

/// An OCSP response with this list of SCTs (RFC 6960 section 4.2.1).
fn ocsp(list: &[u8]) -> Vec<u8> {
    let time = |der: &mut Der| der.put(0x18, b"20260701000000Z");
    let single = |der: &mut Der| {
        der.sequence(|der| der.octet_string(b"certID"));
        der.context_primitive(0, &[]);
        time(der);
        der.context(1, |der| {
            der.sequence(|der| {
                der.sequence(|der| {
                    der.put(6, &[0x2b, 6, 1, 4, 1, 0xd6, 0x79, 2, 4, 5]);
                    der.octet_string(&Der::build(|der| der.octet_string(list)));
                });
            });
        });
    };
    let basic = Der::build(|der| {
        der.sequence(|der| {
            der.sequence(|der| {
                der.context(2, |der| der.octet_string(b"key"));
                time(der);
                der.sequence(|der| der.sequence(single));
            });
        });
    });
    Der::build(|der| {
        der.sequence(|der| {
            der.put(0x0a, &[0]);
            der.context(0, |der| {
                der.sequence(|der| {
                    der.put(6, &[0x2b, 6, 1, 5, 5, 7, 48, 1, 1]);
                    der.octet_string(&basic);
                });
            });
        });
    })
}

#[test]
fn scts_that_come_beside_the_certificate() {
    let list = list(&LOGS);
    let leaf = certificate("stapled.example", &[]);
    let entry = SignedEntry::of_delivered(&Certificate::parse(&leaf).unwrap());
    let sign = |n| log_key(n).sign_sct(1, &entry, 7).unwrap();
    let beside = Beside {
        ocsp: ocsp(&encode_sct_list(&[sign(1)]).unwrap()),
        tls: encode_sct_list(&[sign(2)]).unwrap(),
    };
    let judgement = judged(&leaf, &beside, Some(&list));
    assert_eq!(judgement.standing, Standing::Good);
    let deliveries: Vec<_> = judgement.scts.iter().map(|sct| sct.delivery).collect();
    assert_eq!(deliveries, [Delivery::Ocsp, Delivery::Tls]);
    // A staple that cannot be read has nothing to say.
    let beside = Beside {
        ocsp: b"no response".to_vec(),
        tls: vec![],
    };
    let judgement = judged(&leaf, &beside, Some(&list));
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
        let judgement = judged(&leaf, &Beside::default(), Some(&list));
        assert_eq!(judgement.standing, standing, "{:?}", judgement.verdicts);
    }
}
