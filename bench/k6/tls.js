// tls.yaml as a script of k6, without reuse of connections.
import http from 'k6/http';
import { check } from 'k6';

export const options = {
  insecureSkipTLSVerify: true,
  noConnectionReuse: true,
  noVUConnectionReuse: true,
  tlsVersion: { min: 'tls1.3', max: 'tls1.3' },
  summaryTrendStats: ['med', 'p(90)', 'p(95)', 'p(99)', 'max', 'avg'],
  scenarios: {
    handshake: {
      executor: 'constant-arrival-rate', rate: Number(__ENV.RATE || 50), timeUnit: '1s',
      duration: __ENV.DURATION || '60s', preAllocatedVUs: 50, maxVUs: 500,
    },
  },
  thresholds: { http_req_failed: ['rate<0.01'] },
};

export default function () {
  const answer = http.get(`${__ENV.TARGET}/`);
  check(answer, { 'status is 200': (r) => r.status === 200 });
}
