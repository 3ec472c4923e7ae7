//! Requests to the witnesses and mirrors of a log.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_log::{Endpoint, WitnessClient, WitnessError, WitnessResponse};
use lucarne_net::Client;

/// Time limit for one response. The log itself ends requests earlier, and counts them as late.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Header fields of an upload.
const PACKED_ENTRIES: [(&str, &str); 2] = [
    ("content-type", "application/octet-stream"),
    ("content-encoding", "gzip"),
];

/// HTTP client of one log for its witnesses and mirrors, which keeps connections.
#[derive(Debug)]
pub(crate) struct HttpWitnesses(Client);

impl HttpWitnesses {
    pub(crate) fn new() -> Self {
        HttpWitnesses(Client::of_system(TIMEOUT))
    }
}

#[async_trait]
impl WitnessClient for HttpWitnesses {
    async fn post(
        &self,
        prefix: &str,
        endpoint: Endpoint,
        body: Bytes,
        max: usize,
    ) -> Result<WitnessResponse, WitnessError> {
        let (name, fields) = match endpoint {
            Endpoint::AddCheckpoint => ("add-checkpoint", &[][..]),
            Endpoint::AddEntries => ("add-entries", &PACKED_ENTRIES[..]),
        };
        let url = format!("{prefix}/{name}");
        let posted = self.0.post_within(&url, fields, body, max).await;
        let response = match posted {
            Ok(response) => response,
            Err(error) if error.is_too_long() => return Err(WitnessError::TooLong),
            Err(error) => return Err(WitnessError::Unreachable(error.into())),
        };
        Ok(WitnessResponse {
            status: response.status.as_u16(),
            body: response.body,
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Returns the response of the client to the bytes of a server.
    async fn responded(bytes: &str) -> Result<WitnessResponse, WitnessError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let prefix = format!("http://{}/w", listener.local_addr().unwrap());
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            assert!(request.starts_with("POST /w/add-checkpoint HTTP/1.1\r\n"));
            // The client may close the connection before it has the whole response.
            let _ = stream.write_all(bytes.as_bytes()).await;
            stream
        };
        // One response is cut off, and the connection stays open.
        let client = HttpWitnesses(Client::of_system(Duration::from_secs(10)));
        let request = client.post(
            &prefix,
            Endpoint::AddCheckpoint,
            Bytes::from_static(b"old 0\n"),
            1000,
        );
        tokio::join!(request, serve).0
    }

    #[tokio::test]
    async fn responses_are_bounded_and_redirects_are_not_followed() {
        let head = |length: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        let longest = "a".repeat(1000);
        let whole = responded(&(head(1000) + &longest)).await.unwrap();
        assert_eq!((whole.status, whole.body), (200, longest.clone().into()));
        for too_long in [head(1001) + &longest + "a", head(16 << 20) + &longest + "a"] {
            let refused = responded(&too_long).await;
            assert!(matches!(refused, Err(WitnessError::TooLong)), "{refused:?}");
        }
        let redirect = "HTTP/1.1 307 Moved\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(responded(redirect).await.unwrap().status, 307);
        let cut = responded("HTTP/1.1 200 OK\r\ncontent-le").await;
        assert!(matches!(cut, Err(WitnessError::Unreachable(_))), "{cut:?}");
    }
}
