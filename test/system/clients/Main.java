import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** HttpClient of the JDK as a client of the proxy. What it does and prints is said in programs.ts. */
public class Main {
	private static final int REQUESTS = 200;
	private static final int LOOPS = 4;
	private static final byte[] MIB = new byte[1 << 20];
	private static final int SMALL = 1 << 14;
	private static final char[] NO_PASSWORD = new char[0];

	private final URI base;
	private final HttpClient client;

	private Main(URI base, HttpClient.Version version) throws Exception {
		this.base = base;
		client = HttpClient.newBuilder().version(version).sslContext(tls()).build();
	}

	public static void main(String[] args) throws Exception {
		for (int i = 0; i < MIB.length; i++) MIB[i] = (byte) (i % 251);
		var version = args[1].equals("h2") ? HttpClient.Version.HTTP_2 : HttpClient.Version.HTTP_1_1;
		var edge = new Main(URI.create(args[0]), version);
		if (args[2].equals("exchange")) edge.exchange();
		else if (args[2].equals("upload")) edge.ask("POST", "/upload", new byte[Integer.parseInt(System.getenv("EDGE_UPLOAD"))]);
		else edge.drain();
		// The client's own threads would keep the process for a while.
		System.exit(0);
	}

	private void exchange() {
		ask("GET", "/mib", null);
		ask("POST", "/echo", MIB);
		for (int i = 0; i < REQUESTS; i++) ask("GET", "/n/" + i, null);
	}

	private void drain() throws InterruptedException {
		ask("GET", "/first", null);
		var threads = Executors.newCachedThreadPool();
		for (int i = 0; i < 2; i++) {
			var held = "/held/" + i;
			var upload = "/held/" + (i + 2);
			threads.execute(() -> ask("GET", held, null));
			threads.execute(() -> ask("POST", upload, Arrays.copyOf(MIB, SMALL)));
		}
		for (int loop = 0; loop < LOOPS; loop++) {
			var name = "/loop/" + loop + "/";
			threads.execute(() -> {
				for (int i = 0; ask("GET", name + i, null); i++) {
				}
			});
		}
		threads.shutdown();
		threads.awaitTermination(1, TimeUnit.HOURS);
	}

	/** One request and its report. Returns whether there was a whole answer. */
	private boolean ask(String method, String path, byte[] body) {
		var publisher = body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofByteArray(body);
		var request = HttpRequest.newBuilder(URI.create(base + path))
				// A GOAWAY can leave a request of Java's client without an end (JDK-8335181).
				.timeout(Duration.ofSeconds(120))
				.header("authorization", "Bearer " + System.getenv("EDGE_TOKEN"))
				.method(method, publisher).build();
		var name = method + " " + base.getPath() + path;
		try {
			var response = client.send(request, HttpResponse.BodyHandlers.ofByteArray());
			var digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(response.body()));
			print("{\"request\":\"%s\",\"status\":%d,\"digest\":\"%s\"}", name, response.statusCode(), digest);
			return true;
		} catch (IOException error) {
			print("{\"request\":\"%s\",\"error\":\"%s\"}", name, error.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " "));
			return false;
		} catch (Exception error) {
			throw new AssertionError(error);
		}
	}

	private static void print(String format, Object... values) {
		synchronized (System.out) {
			System.out.println(String.format(format, values));
		}
	}

	private static SSLContext tls() throws Exception {
		var trusted = KeyStore.getInstance("PKCS12");
		trusted.load(null, null);
		trusted.setCertificateEntry("ca", certificates("EDGE_CA")[0]);
		var trust = TrustManagerFactory.getInstance("PKIX");
		trust.init(trusted);
		var own = KeyStore.getInstance("PKCS12");
		own.load(null, null);
		var key = KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(der(read("EDGE_KEY"))));
		own.setKeyEntry("client", key, NO_PASSWORD, certificates("EDGE_CERT"));
		var keys = KeyManagerFactory.getInstance("PKIX");
		keys.init(own, NO_PASSWORD);
		var context = SSLContext.getInstance("TLS");
		context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
		return context;
	}

	private static Certificate[] certificates(String variable) throws Exception {
		var factory = CertificateFactory.getInstance("X.509");
		return factory.generateCertificates(new ByteArrayInputStream(read(variable).getBytes())).toArray(new Certificate[0]);
	}

	private static byte[] der(String pem) {
		return Base64.getMimeDecoder().decode(pem.replaceAll("-----[^-]+-----", ""));
	}

	private static String read(String variable) throws IOException {
		return Files.readString(Path.of(System.getenv(variable)));
	}
}
