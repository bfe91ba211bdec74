package ldpbeam;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Comparator;
import java.util.stream.Stream;
import org.apache.beam.model.pipeline.v1.Endpoints.ApiServiceDescriptor;
import org.apache.beam.runners.fnexecution.artifact.ArtifactStagingService;
import org.apache.beam.runners.flink.FlinkJobInvoker;
import org.apache.beam.runners.flink.FlinkJobServerDriver;
import org.apache.beam.runners.flink.FlinkJobServerDriver.FlinkServerConfiguration;
import org.apache.beam.runners.jobsubmission.InMemoryJobService;
import org.apache.beam.sdk.fn.server.GrpcFnServer;
import org.apache.beam.sdk.fn.server.ServerFactory;
import org.apache.beam.sdk.io.FileSystems;
import org.apache.beam.sdk.options.PipelineOptionsFactory;

/**
 * Beam's job server for Flink on Unix sockets, without its expansion service, for as long as the
 * process that started it lives: that process holds the other end of the standard input.
 *
 * <p>The folder of its sockets is its own; it is deleted at the end, also if that process was
 * killed and cannot.
 */
public final class JobServer {
  private JobServer() {}

  public static void main(String[] arguments) throws IOException {
    FileSystems.setDefaultPipelineOptions(PipelineOptionsFactory.create());
    FlinkServerConfiguration configuration = FlinkJobServerDriver.parseArgs(arguments);
    ServerFactory sockets = ServerFactory.createDefault();
    GrpcFnServer<ArtifactStagingService> staging =
        GrpcFnServer.allocatePortAndCreateFor(
            new ArtifactStagingService(
                ArtifactStagingService.beamFilesystemArtifactDestinationProvider(
                    configuration.getArtifactStagingPath())),
            sockets);
    InMemoryJobService service =
        InMemoryJobService.create(
            staging,
            session -> session,
            token -> staging.getService().removeStagedArtifacts(token),
            FlinkJobInvoker.create(configuration));
    Path folder = Paths.get(System.getProperty("ldpbeam.sockets")).toAbsolutePath();
    ApiServiceDescriptor here =
        ApiServiceDescriptor.newBuilder().setUrl("unix://" + folder.resolve("job")).build();
    GrpcFnServer.create(service, here, sockets);
    while (System.in.read() >= 0) {
      // Nobody writes; the end of the input is the end of who started this.
    }
    delete(folder);
    // A cluster inside this process may have threads that would go on.
    Runtime.getRuntime().halt(0);
  }

  private static void delete(Path folder) {
    try (Stream<Path> within = Files.walk(folder)) {
      within.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(java.io.File::delete);
    } catch (IOException | java.io.UncheckedIOException gone) {
      // Whoever started this deletes it too.
    }
  }
}
