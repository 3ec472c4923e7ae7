//! The submission API: add-chain, add-pre-chain, get-roots (RFC 6962 section 4, static-ct-api).

use crate::support::{Server, TestLog};
use lucarne_ct::SignedEntry;
use lucarne_http::Limits;
use lucarne_mint::{LeafOptions, Poison};

use super::demo;

/// Statements 1, 2, 10, 11, 12, 13.
#[tokio::test]
async fn a_chain_gets_an_sct_that_verifies() {
    let (test, server) = demo(3).await;
    let chain = test.chain("www.example");
    let answer = server
        .post("/demo/ct/v1/add-chain", chain.to_json().as_bytes())
        .await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));

    let json = answer.json();
    let fields: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields.len(), 5, "{fields:?}");
    assert_eq!(json["sct_version"], 0);
    let key = &test.log.config().key;
    let base64 = |bytes: &[u8]| base64_simd::STANDARD.encode_to_string(bytes);
    assert_eq!(json["id"], base64(&key.log_id().0));
    assert_eq!(json["extensions"], base64(&[0, 0, 5, 0, 0, 0, 0, 3]));
    let sct = lucarne_ct::Sct::parse(&answer.body).unwrap();
    assert_eq!(sct.index(), Some(3));
    let certificate = chain.certificates()[0].clone().into();
    let public = key.public_key().unwrap();
    sct.verify(&public, &SignedEntry::X509 { certificate })
        .unwrap();
}

/// Statements 2 and 3.
#[tokio::test]
async fn json_may_be_odd_but_has_to_be_json() {
    let (test, server) = demo(0).await;
    let body = test.chain("www.example").to_json();
    let first = server.post("/demo/ct/v1/add-chain", body.as_bytes()).await;
    let spaced = body.replace("\",\"", "\" ,\n\t\"").replace(":[", " : [ ");
    let split = body.replacen("MI", "MI\\n", 1);
    let extra = body.replacen('{', "{\"more\":{\"chain\":[1]},", 1);
    for odd in [spaced, split, extra, format!(" \n{body}\n ")] {
        let again = server.post("/demo/ct/v1/add-chain", odd.as_bytes()).await;
        assert_eq!(again.status, 200, "{}", again.text());
        let (first, again) = (first.json(), again.json());
        assert_eq!(first["extensions"], again["extensions"]);
        assert_eq!(first["timestamp"], again["timestamp"]);
    }
    let cases = [
        (body.replacen("MI", "!!", 1), "invalid_base64"),
        (body[..body.len() - 1].to_owned(), "invalid_json"),
        (String::new(), "invalid_json"),
        ("null".to_owned(), "invalid_json"),
        ("{}".to_owned(), "missing_chain"),
        ("{\"chain\":[]}".to_owned(), "empty_chain"),
        ("{\"chain\":[\"AAAA\"]}".to_owned(), "invalid_certificate"),
    ];
    for (wrong, code) in cases {
        let answer = server.post("/demo/ct/v1/add-chain", wrong.as_bytes()).await;
        assert_eq!(answer.status, 400, "{wrong}");
        assert_eq!(answer.json()["code"], code, "{wrong}");
    }
    let count = |code: &str| {
        let labels = format!("{{log=\"demo\",code=\"{code}\"}}");
        server.metric(&format!("lucarne_http_refusals_total{labels}"))
    };
    let counted = ["invalid_json", "empty_chain", "unknown_root"].map(count);
    assert_eq!(counted, [3, 1, 0]);
}

/// Every rejection has the same form and names the certificate at fault.
#[tokio::test]
async fn a_rejection_says_what_and_where() {
    let (test, server) = demo(0).await;
    let mut certificates = test.chain("www.example").into_certificates();
    certificates.swap(0, 1);
    let swapped = lucarne_mint::Chain::new(certificates).to_json();
    let answer = server
        .post("/demo/ct/v1/add-chain", swapped.as_bytes())
        .await;
    assert_eq!(answer.status, 400);
    let json = answer.json();
    assert!(json["certificate_index"].is_number(), "{json}");
    for field in ["error", "code", "detail", "help"] {
        assert!(!json[field].as_str().unwrap().is_empty(), "{json}");
    }

    let stranger = TestLog::start("other").await.chain("www.example").to_json();
    let answer = server
        .post("/demo/ct/v1/add-chain", stranger.as_bytes())
        .await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (400, &"unknown_root".into())
    );
}

/// The link of a refusal leads to the entry of its code, below both prefixes and the root.
#[tokio::test]
async fn a_refusal_links_to_its_explanation() {
    let (_test, server) = demo(0).await;
    let refusals = [
        server.post("/demo/ct/v1/add-chain", b"{}").await,
        server.post("/demo/check-chain", b"{").await,
        server.get("/demo/ct/v1/add-chain").await,
        server.get("/demo/checkpoint?after=x").await,
    ];
    for refusal in refusals {
        let json = refusal.json();
        let link = json["help"].as_str().unwrap();
        let below = link.strip_prefix("http://log.example/demo/").unwrap();
        let (path, anchor) = below.split_once('#').unwrap();
        assert_eq!(json["code"], anchor);
        for prefix in ["/demo/", "/"] {
            let page = server.get(&format!("{prefix}{path}")).await;
            assert_eq!(page.status, 200, "{prefix}{link}");
            let kind = page.header("content-type").unwrap();
            assert!(kind.starts_with("text/html"), "{kind}");
            assert!(page.text().contains(&format!("id=\"{anchor}\"")), "{link}");
            let style = server.get(&format!("{prefix}page.css")).await;
            assert_eq!(style.status, 200);
        }
    }
}

/// Statements 5 and 14: each kind has its own endpoint.
#[tokio::test]
async fn precertificates_have_an_endpoint_of_their_own() {
    let (test, server) = demo(0).await;
    let mut options = LeafOptions::with_key(["www.example"], test.leaf_key.clone());
    options.poison = Some(Poison::Last);
    let precert = test.ca.chain(test.ca.issue(&options).unwrap()).to_json();
    let cert = test.chain("www.example").to_json();
    let (x509, pre) = ("/demo/ct/v1/add-chain", "/demo/ct/v1/add-pre-chain");
    assert_eq!(server.post(pre, precert.as_bytes()).await.status, 200);
    let answer = server.post(x509, precert.as_bytes()).await;
    assert_eq!(answer.json()["code"], "precertificate_on_add_chain");
    let answer = server.post(pre, cert.as_bytes()).await;
    assert_eq!(answer.json()["code"], "certificate_on_add_pre_chain");
}

/// Statement 3: methods and sizes, and never a 5xx for bad input.
#[tokio::test]
async fn wrong_methods_and_sizes() {
    let (test, _) = demo(0).await;
    let limits = Limits {
        body_bytes: 10_000,
        ..Limits::default()
    };
    let server = Server::start(vec![test.log.clone()], limits).await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "TRACE", "PATCH", "BREW"] {
        let answer = server.ask(method, "/demo/ct/v1/add-chain", &[]).await;
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("allow"), Some("POST, OPTIONS"));
    }
    for path in [
        "checkpoint",
        "tile/0/000",
        "ct/v1/get-roots",
        "log.v3.json",
        "",
    ] {
        let answer = server
            .ask("POST", &format!("/demo/{path}"), &[("content-length", "0")])
            .await;
        assert_eq!(answer.status, 405, "{path}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
    for path in [
        "ct/v1/add-chain",
        "ct/v1/add-pre-chain",
        "ct/v1/get-roots",
        "checkpoint",
    ] {
        let answer = server.ask("OPTIONS", &format!("/demo/{path}"), &[]).await;
        assert_eq!(answer.status, 204, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert!(
            answer
                .header("access-control-allow-methods")
                .unwrap()
                .contains("OPTIONS")
        );
    }
    let big = format!("{{\"chain\":[\"{}\"]}}", "A".repeat(10_000));
    let answer = server.post("/demo/ct/v1/add-chain", big.as_bytes()).await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (413, &"body_too_large".into())
    );
}

/// Statement 9.
#[tokio::test]
async fn roots_are_listed() {
    let (test, server) = demo(0).await;
    let answer = server.get("/demo/ct/v1/get-roots").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    let root = base64_simd::STANDARD.encode_to_string(test.ca.cert_der());
    assert_eq!(answer.json(), serde_json::json!({ "certificates": [root] }));
}

/// `check-chain` checks a chain without logging it, unlike a submission of a logged chain.
#[tokio::test]
async fn a_chain_is_checked_and_not_logged() {
    let (test, server) = demo(0).await;
    let known = test.chain("www.example").into_certificates();
    let body = |certificates: &[Vec<u8>]| lucarne_mint::Chain::new(certificates.to_vec()).to_json();
    let add = |body: String| {
        let server = &server;
        async move { server.post("/demo/ct/v1/add-chain", body.as_bytes()).await }
    };
    let check = |body: String| {
        let server = &server;
        async move { server.post("/demo/check-chain", body.as_bytes()).await }
    };
    let answer = check(body(&known)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["accepted"], true);
    assert_eq!(answer.json()["on"], "add-chain");
    assert_eq!(test.log.published().unwrap().size, 0);

    // The entry is logged already, and its issuer is forged.
    assert_eq!(add(body(&known)).await.status, 200);
    let mut forged = known.clone();
    *forged[1].last_mut().unwrap() ^= 1;
    let answer = check(body(&forged)).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(answer.json()["code"], "invalid_signature");
    assert_eq!(answer.json()["certificate_index"], 1);
    let answer = check("{}".to_owned()).await;
    assert_eq!(answer.json()["code"], "missing_chain");
    assert_eq!(test.log.published().unwrap().size, 1);
    let answer = server.get("/demo/check-chain").await;
    assert_eq!(
        (answer.status, answer.header("allow")),
        (405, Some("POST, OPTIONS"))
    );
}
