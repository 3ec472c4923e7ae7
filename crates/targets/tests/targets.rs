//! Tests of the targets that this crate implements.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use http::Method;
use lucarne_load::http::{Client, ClientOptions, Endpoint, Request, Response};
use lucarne_targets::{Authority, F5, Inventory, Kind, WebServer};
use serde_json::{Value, json};

/// Returns a client that trusts the targets' authority.
async fn client(authority: &Authority, url: &str) -> Client {
    let options = Arc::new(ClientOptions {
        ca: vec![authority.ca_file()],
        ..ClientOptions::default()
    });
    let origin = url.split('/').take(3).collect::<Vec<_>>().join("/");
    let endpoint = Endpoint::resolve(&origin, &options).await.unwrap();
    Client::new(endpoint, options)
}

/// Returns status, body and the response.
async fn ask(
    client: &mut Client,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, Value, Response) {
    let request = Request::new(&method, path).headers(headers).body(body);
    let response = client.send(&request).await;
    assert_eq!(response.exchange.outcome, Ok(()), "{method} {path}");
    let json = serde_json::from_slice(&response.body).unwrap_or_default();
    (response.status, json, response)
}

#[tokio::test]
async fn the_inventory_validates_lists_and_remembers() {
    let authority = Authority::new().unwrap();
    let inventory = Inventory::start(&authority, 0).unwrap();
    let mut client = client(&authority, &inventory.url).await;
    let token = format!("Bearer {}", Inventory::TOKEN);
    let headers = [("authorization", token.as_str())];
    let (certificates, post) = ("/api/v1/certificates", Method::POST);

    let (status, _, answer) = ask(&mut client, Method::GET, certificates, &[], "").await;
    assert_eq!(
        (status, answer.headers.get("www-authenticate")),
        (401, Some("Bearer"))
    );

    let name = "loadtest-1.example.test";
    let mut new = json!({
        "name": name, "common_name": name, "sans": [name], "issuer_id": "iss-local",
        "owner_id": "o-alice", "team_id": "t-platform", "renewal_policy_id": "rp-standard",
        "environment": "production",
    });
    let body = new.to_string();
    let (status, made, _) = ask(&mut client, post.clone(), certificates, &headers, &body).await;
    assert_eq!((status, &made["common_name"]), (201, &new["name"]));
    let again = ask(&mut client, post.clone(), certificates, &headers, &body).await;
    assert_eq!(again.0, 409);
    new["sans"] = json!([]);
    let body = new.to_string();
    let (status, wrong, _) = ask(&mut client, post.clone(), certificates, &headers, &body).await;
    assert_eq!(
        (status, &wrong["error"]["fields"][0]["field"]),
        (400, &"sans".into())
    );

    let page = "/api/v1/certificates?per_page=50";
    let (status, list, answer) = ask(&mut client, Method::GET, page, &headers, "").await;
    assert_eq!(
        (status, &list["total"], &list["page"], &list["per_page"]),
        (200, &1.into(), &1.into(), &50.into())
    );
    assert_eq!(list["data"][0], made);
    let tag = answer.headers.get("etag").unwrap().to_owned();
    let known = [headers[0], ("if-none-match", tag.as_str())];
    let (status, _, answer) = ask(&mut client, Method::GET, page, &known, "").await;
    assert_eq!((status, answer.body.len()), (304, 0));

    let renew = r#"{"team_id":"t-platform","issuer_id":"iss-local"}"#;
    let path = "/api/v1/certificates/bulk-renew";
    let (status, job, _) = ask(&mut client, post.clone(), path, &headers, renew).await;
    assert_eq!((status, &job["total_enqueued"]), (202, &1.into()));
    assert_eq!(
        ask(&mut client, post.clone(), path, &headers, "{}").await.0,
        400
    );

    let beat = "/api/v1/agents/ag-loadtest-00007/heartbeat";
    for beats in 1..=2 {
        let (status, said, _) = ask(&mut client, post.clone(), beat, &headers, "{}").await;
        assert_eq!((status, &said["heartbeats"]), (200, &beats.into()));
    }
    for agent in ["00000", "05001", "7"] {
        let beat = format!("/api/v1/agents/ag-loadtest-{agent}/heartbeat");
        let (status, _, _) = ask(&mut client, post.clone(), &beat, &headers, "{}").await;
        assert_eq!(status, 404, "{agent}");
    }
}

#[tokio::test]
async fn a_certificate_is_deployed_in_one_transaction() {
    let authority = Authority::new().unwrap();
    let f5 = F5::start(&authority, 0).unwrap();
    let mut client = client(&authority, &f5.url).await;
    let (get, post, patch) = (Method::GET, Method::POST, Method::PATCH);
    assert_eq!(
        ask(&mut client, get.clone(), "/healthz", &[], "").await.0,
        200
    );
    let transaction = "/mgmt/tm/transaction";
    assert_eq!(
        ask(&mut client, post.clone(), transaction, &[], "{}")
            .await
            .0,
        401
    );

    let login = json!({ "username": F5::USER.0, "password": F5::USER.1 }).to_string();
    let path = "/mgmt/shared/authn/login";
    let (_, said, _) = ask(&mut client, post.clone(), path, &[], &login).await;
    let token = said["token"]["token"].as_str().unwrap().to_owned();
    let auth = ("x-f5-auth-token", token.as_str());

    let identity = authority.identity("deployed").unwrap();
    let uploads = [("web.crt", &identity.chain), ("web.key", &identity.key)];
    for (name, file) in uploads {
        let content = std::fs::read_to_string(file).unwrap();
        let range = format!("0-{}/{}", content.len() - 1, content.len());
        let path = format!("/mgmt/shared/file-transfer/uploads/{name}");
        let headers = [auth, ("content-range", range.as_str())];
        let (status, said, _) = ask(&mut client, post.clone(), &path, &headers, &content).await;
        assert_eq!((status, &said["remainingByteCount"]), (200, &0.into()));
    }

    let (_, begun, _) = ask(&mut client, post.clone(), transaction, &[auth], "{}").await;
    let id = begun["transId"].to_string();
    let within = [auth, ("x-f5-rest-coordination-id", id.as_str())];
    for (kind, file) in [("cert", "web.crt"), ("key", "web.key")] {
        let from = format!("file:/var/config/rest/downloads/{file}");
        let install = json!({ "command": "install", "name": file, "from-local-file": from });
        let path = format!("/mgmt/tm/sys/crypto/{kind}");
        let body = install.to_string();
        assert_eq!(
            ask(&mut client, post.clone(), &path, &within, &body)
                .await
                .0,
            200
        );
    }
    let profile = json!({ "name": "web", "cert": "/Common/web.crt", "key": "/Common/web.key" });
    let (profiles, body) = ("/mgmt/tm/ltm/profile/client-ssl", profile.to_string());
    // Before the commit, the transaction has no effect.
    assert_eq!(
        ask(&mut client, post.clone(), profiles, &[auth], &body)
            .await
            .0,
        400
    );
    assert_eq!(
        ask(&mut client, post.clone(), profiles, &within, &body)
            .await
            .0,
        200
    );
    let commit = r#"{"state":"VALIDATING"}"#;
    let path = format!("{transaction}/{id}");
    let (status, done, _) = ask(&mut client, patch, &path, &[auth], commit).await;
    assert_eq!((status, &done["state"]), (200, &"COMPLETED".into()));
    let path = format!("{profiles}/~Common~web");
    let (status, shown, _) = ask(&mut client, get, &path, &[auth], "").await;
    assert_eq!((status, &shown["cert"]), (200, &"/Common/web.crt".into()));
}

#[tokio::test]
async fn web_servers_answer_and_leave_nobody_behind() {
    let authority = Authority::new().unwrap();
    for kind in [Kind::Nginx, Kind::Apache, Kind::HaProxy] {
        let server = WebServer::start(kind, &authority, 0).unwrap();
        let mut client = client(&authority, &server.url).await;
        let (status, _, answer) = ask(&mut client, Method::GET, "/", &[], "").await;
        assert_eq!(status, 200, "{kind:?}: {}", answer.excerpt());
        let address = server.address;
        drop(server);
        assert!(std::net::TcpStream::connect(address).is_err(), "{kind:?}");
    }
}
