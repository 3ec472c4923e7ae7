use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::*;

/// Starts a server that sends these responses, each on a separate connection. Returns the first
/// lines of the requests.
async fn server(responses: Vec<String>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let (address, asked) = whole(responses).await;
    let first = |request: &String| request.lines().next().unwrap_or_default().to_owned();
    let lines = async move { asked.await.unwrap().iter().map(first).collect() };
    (address, tokio::spawn(lines))
}

/// Starts a server that sends these responses. Returns the complete requests.
async fn whole(responses: Vec<String>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(async move {
        let mut asked = Vec::new();
        for response in responses {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            asked.push(request);
            stream.write_all(response.as_bytes()).await.unwrap();
        }
        asked
    });
    (address, serving)
}

fn found(location: &str) -> String {
    format!(
        "HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
}

fn ok(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

fn client() -> Client {
    Client::new(&trusting(Trust::system()), Duration::from_secs(10))
}

#[tokio::test]
async fn what_has_not_changed_is_not_sent_again() {
    let responses = [
        "HTTP/1.1 200 OK\r\netag: \"7\"\r\ncontent-length: 3\r\nconnection: close\r\n\r\nnew",
        "HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n",
    ];
    let (address, asked) = whole(responses.map(str::to_owned).to_vec()).await;
    let client = client();
    let url = format!("http://{address}/report");
    let none = Validators::default();
    let first = client.get_if_changed(&url, 10, &none).await.unwrap();
    let (body, validators) = first.unwrap();
    assert_eq!(&body[..], b"new");
    let again = client.get_if_changed(&url, 10, &validators).await.unwrap();
    assert!(again.is_none());
    // Status 304 for a request without validators is an error.
    assert!(client.get(&url, 10).await.is_err());
    let asked = asked.await.unwrap();
    assert!(!asked[0].contains("if-none-match"), "{}", asked[0]);
    assert!(asked[1].contains("if-none-match: \"7\""), "{}", asked[1]);
}

#[tokio::test]
async fn redirects_are_followed_and_end() {
    let (address, serving) = server(vec![found("/elsewhere?a=1"), ok("roots")]).await;
    let body = client()
        .get(&format!("http://{address}/here"), 100)
        .await
        .unwrap();
    assert_eq!(&body[..], b"roots");
    let asked = serving.await.unwrap();
    assert_eq!(asked, ["GET /here HTTP/1.1", "GET /elsewhere?a=1 HTTP/1.1"]);

    let (address, serving) = server(vec![found("/again"); REDIRECTS + 1]).await;
    let error = client()
        .get(&format!("http://{address}/"), 100)
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Redirect(..)), "{error}");
    serving.await.unwrap();
}

#[test]
fn tls_is_not_left() {
    let from = Url::parse("https://ccadb.example/report").unwrap();
    let to = |location: &'static str| {
        let headers = HeaderMap::from_iter([(LOCATION, location.parse().unwrap())]);
        redirected(&from, StatusCode::FOUND, &headers).map(String::from)
    };
    assert_eq!(to("/b").unwrap(), "https://ccadb.example/b");
    assert_eq!(
        to("https://other.example/").unwrap(),
        "https://other.example/"
    );
    for plain in ["http://ccadb.example/report", "file:///etc/passwd"] {
        assert!(
            matches!(to(plain), Err(ClientError::Redirect(..))),
            "{plain}"
        );
    }
    let signed = to("http://ccadb.example/report?sig=hidden&n=1").unwrap_err();
    let text = signed.to_string();
    assert!(text.contains("?sig=***&n=1 is one too many"), "{text}");
}

#[tokio::test]
async fn responses_are_bounded() {
    let (address, _serving) = server(vec![ok("0123456789")]).await;
    let error = client()
        .get(&format!("http://{address}/"), 9)
        .await
        .unwrap_err();
    assert!(
        matches!(error, ClientError::Body { limit: 9, .. }),
        "{error}"
    );
}

#[test]
fn several_threads_ask_at_once() {
    let runtime = Runtime::new().unwrap();
    let (address, _serving) = runtime.block_on(server(vec![ok("1"), ok("1"), ok("1")]));
    let client = BlockingClient::new(client()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let response = client
                    .post_json(&format!("http://{address}/"), "{}")
                    .unwrap();
                assert_eq!(
                    (response.status, &response.body[..]),
                    (StatusCode::OK, &b"1"[..])
                );
            });
        }
    });
}

#[tokio::test]
async fn a_blocking_client_works_inside_a_runtime() {
    let other = Runtime::new().unwrap();
    let (address, _serving) = other.spawn(server(vec![ok("1")])).await.unwrap();
    let client = BlockingClient::new(client()).unwrap();
    let body = client.get(&format!("http://{address}/"), 9).unwrap();
    assert_eq!(body, "1");
    drop(client);
    other.shutdown_background();
}

#[test]
fn how_long_to_wait() {
    let now = "2026-07-01T00:00:00Z".parse().unwrap();
    for (value, seconds) in [
        ("0", Some(0)),
        (" 17 ", Some(17)),
        ("Wed, 01 Jul 2026 00:01:00 GMT", Some(60)),
        ("Wed, 01 Jul 2020 00:01:00 GMT", Some(0)),
        ("-1", None),
        ("soon", None),
        ("", None),
    ] {
        assert_eq!(
            wait(value, now),
            seconds.map(Duration::from_secs),
            "{value}"
        );
    }
}
