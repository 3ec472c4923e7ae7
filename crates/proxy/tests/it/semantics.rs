//! What HTTP wants of those who pass requests on (RFC 9110): which HTTP is
//! spoken with the server.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use crate::common::Rig;
use crate::common::client::{self, Answer};
use crate::common::origin::{self, Origin};

#[tokio::test]
async fn http2_does_not_travel_over_http1_where_the_server_speaks_it() {
    let rig = Rig::new().await;
    let both = &["h2", "http/1.1"];
    let acceptor = origin::acceptor(&rig.world, &["localhost"], both, |_| ());
    // Of HTTP/2, the server ends each connection after one request.
    let origin = Origin::of(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                origin::serve_one(stream, http2).await;
            }
        }
    })
    .await;
    let authority = format!("localhost:{}", origin.address.port());
    // A connection of HTTP/1.1 lies about.
    let old = client::get(&rig, &authority, "localhost", &["http/1.1"], "/seen").await;
    assert!(old.body.contains("HTTP/1.1"), "{old:?}");
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["h2"]).await;
    let mut sender = client::http2_over(stream.unwrap()).await;
    for round in 0..50 {
        let request = Request::get("https://localhost/seen");
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let answer = Answer::of(sender.send_request(request).await.unwrap()).await;
        assert!(answer.body.contains("HTTP/2.0"), "{round}: {}", answer.body);
    }
}
